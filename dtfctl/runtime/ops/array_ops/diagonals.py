"""Diagonals and bands of matrices."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor


def matrix_diag(
    diagonal: Any,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Make matrices with the given diagonals."""
    diagonal = convert_to_tensor(diagonal)
    if diagonal.dtype.base_dtype is dtypes.bool_ and padding_value == 0:
        padding_value = False
    return apply_op(
        "MatrixDiagV3",
        name,
        diagonal=diagonal,
        k=k,
        num_rows=num_rows,
        num_cols=num_cols,
        padding_value=convert_to_tensor(padding_value, diagonal.dtype.base_dtype),
        align=align,
    )


def matrix_diag_part(
    input: Any, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Take the diagonals `k` of (each) matrix, padded to one length."""
    x = convert_to_tensor(input)
    if x.dtype.base_dtype is dtypes.bool_ and padding_value == 0:
        padding_value = False
    return apply_op(
        "MatrixDiagPartV3",
        name,
        input=x,
        k=k,
        padding_value=convert_to_tensor(padding_value, x.dtype.base_dtype),
        align=align,
    )


def matrix_band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """Set zeros outside a band around the diagonal of matrices; negative numbers keep a whole triangle."""
    low = convert_to_tensor(num_lower, None if isinstance(num_lower, Tensor) else dtypes.int64)
    return apply_op(
        "MatrixBandPart",
        name,
        input=input,
        num_lower=low,
        num_upper=convert_to_tensor(num_upper, low.dtype.base_dtype),
    )
