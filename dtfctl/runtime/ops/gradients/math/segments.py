"""Gradients of reductions over segments."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import IndexedSlices
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.gradients.common import number_like


@register_gradient("SegmentSum")
def _segment_sum(op: Operation, grad: Tensor) -> Any:
    return [array_ops.gather(grad, op.inputs[1]), None]


@register_gradient("SegmentMean")
def _segment_mean(op: Operation, grad: Tensor) -> Any:
    ids = op.inputs[1]
    rank = array_ops.rank(op.inputs[0])
    shape = array_ops.concat(
        [apply_op("Shape", input=ids), apply_op("Fill", dims=array_ops.expand_dims(rank - 1, 0), value=1)], 0
    )
    ones = apply_op("Fill", dims=shape, value=number_like(1, grad))
    scaled = math_ops.divide(grad, math_ops.segment_sum(ones, ids))
    return [array_ops.gather(scaled, ids), None]


@register_gradient("SegmentMax", "SegmentMin")
def _segment_extremum(op: Operation, grad: Tensor) -> Any:
    data, ids = op.inputs
    gathered = array_ops.gather(op.outputs[0], ids)
    chosen = math_ops.equal(data, gathered)
    count = math_ops.segment_sum(math_ops.cast(chosen, grad.dtype), ids)
    share = array_ops.gather(math_ops.divide(grad, count), ids)
    return [array_ops.where(chosen, share, array_ops.zeros_like(share)), None]


@register_gradient("SegmentProd")
def _segment_prod(op: Operation, grad: Tensor) -> Any:
    data, ids = op.inputs
    zero = math_ops.equal(data, number_like(0, data))
    zeros = math_ops.segment_sum(math_ops.cast(zero, dtypes.int32), ids)
    grad = apply_op("SelectV2", condition=math_ops.greater(zeros, 1), t=array_ops.zeros_like(grad), e=grad)
    nonzero = apply_op("SelectV2", condition=zero, t=array_ops.ones_like(data), e=data)
    product = array_ops.gather(math_ops.segment_prod(nonzero, ids), ids)
    whole = array_ops.gather(op.outputs[0], ids)
    partial = apply_op("SelectV2", condition=zero, t=product, e=whole / nonzero)
    return [array_ops.gather(grad, ids) * partial, None]


def gather_drop_negatives(grad: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Gather grad[ids], zero rows for negative ids; tell which entries' ids are not negative (shaped like the rows)."""
    clipped = math_ops.maximum(ids, array_ops.zeros_like(ids))
    gathered = array_ops.gather(grad, clipped)
    positive = math_ops.greater_equal(ids, number_like(0, ids))
    extra = gathered.shape.rank
    have = positive.shape.rank
    if extra is not None and have is not None:
        for _ in range(extra - have):
            positive = array_ops.expand_dims(positive, -1)
    else:
        spare = array_ops.rank(gathered) - array_ops.rank(positive)
        ones = apply_op("Fill", dims=array_ops.expand_dims(spare, 0), value=1)
        positive = apply_op(
            "Reshape", tensor=positive, shape=array_ops.concat([apply_op("Shape", input=positive), ones], 0)
        )
    whole = apply_op("LogicalAnd", x=positive, y=array_ops.ones_like(gathered, dtype=dtypes.bool_))
    return apply_op("Select", condition=whole, t=gathered, e=array_ops.zeros_like(gathered)), whole


@register_gradient("UnsortedSegmentSum")
def _unsorted_segment_sum(op: Operation, grad: Tensor) -> Any:
    return [gather_drop_negatives(grad, op.inputs[1])[0], None, None]


@register_gradient("UnsortedSegmentMax", "UnsortedSegmentMin")
def _unsorted_segment_extremum(op: Operation, grad: Tensor) -> Any:
    data, ids, count = op.inputs
    gathered, positive = gather_drop_negatives(op.outputs[0], ids)
    chosen = math_ops.logical_and(math_ops.equal(data, gathered), positive)
    total = math_ops.unsorted_segment_sum(math_ops.cast(chosen, grad.dtype), ids, count)
    share, _ = gather_drop_negatives(math_ops.divide(grad, total), ids)
    return [apply_op("Select", condition=chosen, t=share, e=array_ops.zeros_like(share)), None, None]


@register_gradient("UnsortedSegmentProd")
def _unsorted_segment_prod(op: Operation, grad: Tensor) -> Any:
    data, ids, count = op.inputs
    zero = math_ops.equal(data, number_like(0, data))
    zeros = math_ops.unsorted_segment_sum(math_ops.cast(zero, dtypes.int32), ids, count)
    grad = apply_op("SelectV2", condition=math_ops.greater(zeros, 1), t=array_ops.zeros_like(grad), e=grad)
    nonzero = apply_op("SelectV2", condition=zero, t=array_ops.ones_like(data), e=data)
    clipped = math_ops.maximum(ids, array_ops.zeros_like(ids))
    product = array_ops.gather(math_ops.unsorted_segment_prod(nonzero, ids, count), clipped)
    whole = array_ops.gather(op.outputs[0], clipped)
    partial = apply_op("SelectV2", condition=zero, t=product, e=whole / nonzero)
    return [gather_drop_negatives(grad, ids)[0] * partial, None, None]


def _sparse_segment(op: Operation, grad: Tensor, name: str, extra: int) -> Any:
    data, indices, ids = op.inputs[:3]
    nothing = [None] * (2 + extra)
    rows = apply_op("Shape", input=data)
    if op.attr("sparse_gradient"):
        values, unique = apply_op_outputs(
            f"{name}GradV2", grad=grad, indices=indices, segment_ids=ids, dense_output_dim0=rows[0]
        )
        return [IndexedSlices(values, unique, rows), *nothing]
    dense = apply_op(f"{name}Grad", grad=grad, indices=indices, segment_ids=ids, output_dim0=rows[0])
    return [dense, *nothing]


for _op_type in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):

    @register_gradient(_op_type)
    def _plain(op: Operation, grad: Tensor, name: str = _op_type) -> Any:
        return _sparse_segment(op, grad, name, 0)

    @register_gradient(f"{_op_type}WithNumSegments")
    def _sized(op: Operation, grad: Tensor, name: str = _op_type) -> Any:
        return _sparse_segment(op, grad, name, 1)
