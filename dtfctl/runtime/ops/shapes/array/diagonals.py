"""Static shapes of diagonals."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, unknown_shape


@register_shape("DiagPart")
def _diag_part(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [TensorShape(None) if dims is None else dims[: len(dims) // 2]]


@register_shape("MatrixDiag", "BatchMatrixDiag")
def _matrix_diag(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    return [TensorShape(None) if dims is None else [*dims, dims[-1]]]


@register_shape("MatrixDiagPart", "BatchMatrixDiagPart")
def _matrix_diag_part(op: Operation) -> Any:
    dims = op.inputs[0].shape.with_rank_at_least(2).dims_or_none
    if dims is None:
        return [TensorShape(None)]
    a, b = dims[-2:]
    return [[*dims[:-2], None if a is None or b is None else min(a, b)]]


def _diagonals(op: Operation, position: int) -> tuple[int, int] | None:
    value = computed_value(op.inputs[position])
    return None if value is None else (int(value.reshape(-1)[0]), int(value.reshape(-1)[-1]))


@register_shape("MatrixDiagPartV2", "MatrixDiagPartV3")
def _matrix_diag_part_v3(op: Operation) -> Any:
    dims, range_ = op.inputs[0].shape.with_rank_at_least(2).dims_or_none, _diagonals(op, 1)
    if dims is None or range_ is None:
        return [TensorShape(None)]
    low, high = range_
    rows, cols = dims[-2:]
    longest = None if rows is None or cols is None else min(rows + min(high, 0), cols - max(low, 0))
    return [[*dims[:-2], longest] if low == high else [*dims[:-2], high - low + 1, longest]]


@register_shape("MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag_v3(op: Operation) -> Any:
    dims, range_ = op.inputs[0].shape.dims_or_none, _diagonals(op, 1)
    rows, cols = computed_value(op.inputs[2]), computed_value(op.inputs[3])
    if dims is None or range_ is None:
        return [TensorShape(None)]
    low, high = range_
    batch = dims[:-1] if low == high else dims[:-2]
    if rows is None or cols is None or dims[-1] is None:
        return [[*batch, None, None]]
    least_rows, least_cols = dims[-1] - min(high, 0), dims[-1] + max(low, 0)
    r, c = int(rows), int(cols)
    if r == -1 and c == -1:
        r = c = max(least_rows, least_cols)
    return [[*batch, least_rows if r == -1 else r, least_cols if c == -1 else c]]


@register_shape("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def _matrix_set_diag(op: Operation) -> Any:
    """Take the batch of the matrices and of the diagonals, whichever knows it."""
    matrices, dims = op.inputs[0].shape.with_rank_at_least(2), op.inputs[1].shape.dims_or_none
    range_ = (0, 0) if len(op.inputs) == 2 else _diagonals(op, 2)
    if dims is None or range_ is None or matrices.is_fully_defined():
        return [matrices]
    batch = dims[:-1] if range_[0] == range_[1] else dims[:-2]
    return [matrices.merge_with(TensorShape(batch).concatenate(unknown_shape(2)))]
