"""Static shapes of the math family."""

from __future__ import annotations

import math
from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value, constant_value_as_shape
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, broadcast_static, unknown_shape
from dtfctl.runtime.ops.op_defs.entry import broadcast, merged


def _broadcast(a: TensorShape, b: TensorShape) -> TensorShape:
    try:
        return broadcast_static(a, b)
    except ValueError:
        raise ValueError(f"Dimensions must be equal, but are {a} and {b}") from None


@register_shape("Equal", "NotEqual")
def _equality(op: Operation) -> Any:
    if op.attr("incompatible_shape_error"):
        return broadcast(op)
    try:
        return [broadcast_static(op.inputs[0].shape, op.inputs[1].shape)]
    except ValueError:
        return [TensorShape(None)]


@register_shape("Cross")
def _cross(op: Operation) -> Any:
    [shape] = merged(op)
    if shape.rank is not None:
        _same(shape.with_rank_at_least(1).as_list()[-1], 3, "vectors")
    return [shape]


@register_shape("Select")
def _select(op: Operation) -> Any:
    condition, t, e = (x.shape for x in op.inputs)
    merged = t.merge_with(e)
    if condition.rank not in (None, 0, 1) or condition.rank == merged.rank == 1:
        merged = merged.merge_with(condition)
    elif condition.rank == 1 and merged.rank is not None:
        merged = merged.merge_with(condition.concatenate(unknown_shape(merged.rank - 1)))
    return [merged]


@register_shape("SelectV2")
def _select_v2(op: Operation) -> Any:
    condition, t, e = (x.shape for x in op.inputs)
    return [_broadcast(_broadcast(condition, t), e)]


@register_shape("Betainc")
def _betainc(op: Operation) -> Any:
    shape = TensorShape([])
    for tensor in op.inputs:
        shape = _broadcast(shape, tensor.shape)
    return [shape]


@register_shape("Sum", "Prod", "Max", "Min", "Mean", "EuclideanNorm", "All", "Any")
def _reduction(op: Operation) -> Any:
    dims, keep = op.inputs[0].shape.dims_or_none, op.attr("keep_dims")
    axes = computed_value(op.inputs[1])
    if dims is None:
        return [TensorShape(None)]
    rank = len(dims)
    if axes is None:
        if keep:
            return [unknown_shape(rank)]
        count = op.inputs[1].shape.num_elements()
        return [TensorShape(None) if count is None else unknown_shape(max(rank - count, 0))]
    reduced = set()
    for axis in axes.reshape(-1).tolist():
        if not -rank <= axis < rank:
            raise ValueError(f"Invalid reduction dimension {axis} for input with {rank} dimensions. for '{op.name}'")
        reduced.add(axis % rank)
    if keep:
        return [[1 if i in reduced else d for i, d in enumerate(dims)]]
    return [[d for i, d in enumerate(dims) if i not in reduced]]


@register_shape("ArgMax", "ArgMin")
def _arg(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    axis = computed_value(op.inputs[1])
    if dims is None:
        return [TensorShape(None)]
    if axis is None:
        return [unknown_shape(max(len(dims) - 1, 0))]
    at = int(axis)
    if len(dims) <= 1:
        return [[]]
    if not -len(dims) <= at < len(dims):
        raise ValueError(f"Dimension ({at}) must be in the range [{-len(dims)}, {len(dims)}) for '{op.name}'")
    at %= len(dims)
    return [[d for i, d in enumerate(dims) if i != at]]


def _same(a: int | None, b: int | None, what: str) -> None:
    if a is not None and b is not None and a != b:
        raise ValueError(f"Dimensions must be equal, but are {a} and {b} for {what}")


@register_shape("MatMul", "SparseMatMul")
def _matmul(op: Operation) -> Any:
    a, b = (t.shape.with_rank(2).dims_or_none for t in op.inputs)
    assert a is not None and b is not None
    m, k = (a[1], a[0]) if op.attr("transpose_a") else a
    k2, n = (b[1], b[0]) if op.attr("transpose_b") else b
    _same(k, k2, f"'{op.name}' (op: '{op.type}') with input shapes: {op.inputs[0].shape}, {op.inputs[1].shape}.")
    return [[m, n]]


@register_shape("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(op: Operation) -> Any:
    a, b = (t.shape.with_rank_at_least(2).dims_or_none for t in op.inputs)
    if a is None or b is None:
        return [TensorShape(None)]
    m, k = (a[-1], a[-2]) if op.attr("adj_x") else a[-2:]
    k2, n = (b[-1], b[-2]) if op.attr("adj_y") else b[-2:]
    _same(k, k2, f"'{op.name}' (op: '{op.type}') with input shapes: {op.inputs[0].shape}, {op.inputs[1].shape}.")
    batch = _broadcast(TensorShape(a[:-2]), TensorShape(b[:-2]))
    return [batch.concatenate([m, n])]


@register_shape("Range")
def _range(op: Operation) -> Any:
    values = [computed_value(t) for t in op.inputs]
    if any(v is None for v in values):
        return [[None]]
    start, limit, delta = (v.item() for v in values if v is not None)
    if delta == 0:
        raise ValueError("Requires delta != 0")
    if (delta > 0 and start > limit) or (delta < 0 and start < limit):
        sign, relation = (">", "<=") if delta > 0 else ("<", ">=")
        raise ValueError(f"Requires start {relation} limit when delta {sign} 0: {start}/{limit} for '{op.name}'")
    return [[math.ceil(abs((limit - start) / delta))]]


@register_shape("LinSpace")
def _linspace(op: Operation) -> Any:
    count = computed_value(op.inputs[2])
    return [[None if count is None else int(count)]]


@register_shape("HistogramFixedWidth")
def _histogram(op: Operation) -> Any:
    count = computed_value(op.inputs[2])
    return [[None if count is None else int(count)]]


@register_shape("Bincount")
def _bincount(op: Operation) -> Any:
    size = computed_value(op.inputs[1])
    return [[None if size is None else int(size)]]


@register_shape("DenseBincount")
def _dense_bincount(op: Operation) -> Any:
    size = computed_value(op.inputs[1])
    bins = None if size is None else int(size)
    dims = op.inputs[0].shape.dims_or_none
    if dims is None:
        return [TensorShape(None)]
    return [[bins] if len(dims) < 2 else [dims[0], bins]]


@register_shape("RaggedBincount", "SparseBincount")
def _other_bincount(op: Operation) -> Any:
    size = computed_value(op.inputs[1 + 1 + (op.type == "SparseBincount")])
    bins = None if size is None else int(size)
    if op.type == "RaggedBincount":
        return [[None, bins]]
    return [TensorShape(None)]


@register_shape("SegmentSum", "SegmentMean", "SegmentProd", "SegmentMax", "SegmentMin")
def _segment(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [TensorShape(None) if dims is None else [None, *dims[1:]]]


@register_shape("SegmentSumV2", "SegmentProdV2", "SegmentMaxV2", "SegmentMinV2")
@register_shape("UnsortedSegmentSum", "UnsortedSegmentProd", "UnsortedSegmentMax", "UnsortedSegmentMin")
def _unsorted_segment(op: Operation) -> Any:
    dims, rank = op.inputs[0].shape.dims_or_none, op.inputs[1].shape.rank
    count = computed_value(op.inputs[2])
    if dims is None or rank is None:
        return [TensorShape(None)]
    return [[None if count is None else int(count), *dims[rank:]]]


_SPARSE = ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN")


@register_shape(*_SPARSE)
def _sparse_segment(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [TensorShape(None) if dims is None else [None, *dims[1:]]]


@register_shape(*(f"{name}WithNumSegments" for name in _SPARSE), *(f"{name}Grad" for name in _SPARSE))
def _sparse_segment_sized(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    count = computed_value(op.inputs[3])
    return [TensorShape(None) if dims is None else [None if count is None else int(count), *dims[1:]]]


@register_shape(*(f"{name}GradV2" for name in _SPARSE))
def _sparse_segment_grad_v2(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [TensorShape(None) if dims is None else [None, *dims[1:]], [None]]


@register_shape("RFFT", "RFFT2D", "RFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D")
def _rfft(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    rank = {"T": 1, "2": 2, "3": 3}[op.type.removeprefix("I")[4:5] or "T"]
    if dims is None:
        return [TensorShape(None)]
    lengths = constant_value_as_shape(op.inputs[1]).dims_or_none or (None,) * rank
    last = lengths[-1]
    if not op.type.startswith("I") and last is not None:
        last = last // 2 + 1 if last > 0 else 0
    return [[*dims[:-rank], *lengths[:-1], last]]


@register_shape("SobolSample")
def _sobol(op: Operation) -> Any:
    dim, count = computed_value(op.inputs[0]), computed_value(op.inputs[1])
    return [[None if count is None else int(count), None if dim is None else int(dim)]]
