"""Static shapes of the sparse family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import constant_value_as_shape
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, unknown_shape


def _first(op: Operation, i: int) -> int | None:
    dims = op.inputs[i].shape.dims_or_none
    return None if not dims else dims[0]


def _rank(op: Operation, i: int) -> int | None:
    """Find the rank of the sparse tensor whose indices are input i and whose shape is input i + 2."""
    dims = op.inputs[i].shape.dims_or_none
    known = None if dims is None or len(dims) != 2 else dims[1]
    return known if known is not None else op.inputs[i + 2].shape.num_elements()


@register_shape("SparseReshape")
def _reshape(op: Operation) -> Any:
    rank = op.inputs[2].shape.num_elements()
    return [[_first(op, 0), rank], [rank]]


@register_shape("SparseAdd", "SparseConcat", "SparseSlice")
@register_shape("DenseToDenseSetOperation", "DenseToSparseSetOperation", "SparseToSparseSetOperation")
@register_shape("SparseReduceSumSparse", "SparseReduceMaxSparse")
def _triple(op: Operation) -> Any:
    rank = None
    if op.type in ("SparseAdd", "SparseSlice"):
        rank = _rank(op, 0)
    elif op.type == "SparseConcat":
        n = op.attr("N")
        rank = op.inputs[2 * n].shape.num_elements()
        counts = [t.shape.dims_or_none[0] if t.shape.dims_or_none else None for t in op.inputs[:n]]
        rows = None if None in counts else sum(c for c in counts if c)
        return [[rows, rank], [rows], [rank]]
    return [[None, rank], [None], [rank]]


@register_shape("SparseSplit")
def _split(op: Operation) -> Any:
    n, rank = op.attr("num_split"), op.inputs[3].shape.num_elements()
    return [[None, rank]] * n + [[None]] * n + [[rank]] * n


@register_shape("SparseFillEmptyRows")
def _fill_empty_rows(op: Operation) -> Any:
    rows = constant_value_as_shape(op.inputs[2]).dims_or_none
    return [[None, _rank(op, 0)], [None], [rows[0] if rows else None], [_first(op, 0)]]


@register_shape("SparseTensorDenseMatMul")
def _matmul(op: Operation) -> Any:
    a = constant_value_as_shape(op.inputs[2]).dims_or_none
    b = op.inputs[3].shape.dims_or_none
    rows = None if a is None or len(a) != 2 else a[1] if op.attr("adjoint_a") else a[0]
    columns = None if b is None or len(b) != 2 else b[0] if op.attr("adjoint_b") else b[1]
    return [[rows, columns]]


@register_shape("SparseDenseCwiseAdd", "SparseDenseCwiseMul", "SparseDenseCwiseDiv", "SparseSoftmax")
def _values(op: Operation) -> Any:
    return [[_first(op, 0)]]


@register_shape("SparseAddGrad")
def _add_grad(op: Operation) -> Any:
    return [[_first(op, 1)], [_first(op, 2)]]


@register_shape("SparseSliceGrad")
def _slice_grad(op: Operation) -> Any:
    return [[_first(op, 1)]]


@register_shape("SparseSparseMaximum", "SparseSparseMinimum")
def _extremum(op: Operation) -> Any:
    return [[None, _rank(op, 0)], [None]]


@register_shape("SetSize")
def _set_size(op: Operation) -> Any:
    rank = op.inputs[2].shape.num_elements()
    return [TensorShape(None) if rank is None else unknown_shape(rank - 1)]
