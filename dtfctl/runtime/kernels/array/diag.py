"""Diagonals and bands of (batches of) matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import ints, text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


@register_kernel("Diag")
def _diag(k: KernelBuild) -> Kernel:
    """Input [d...] to output [d..., d...]."""

    def kernel(x: Any) -> Any:
        if x.ndim < 1:
            raise InvalidArgumentError("Input must be at least rank 1, got 0")
        out = np.zeros((x.size, x.size), x.dtype)
        np.fill_diagonal(out, x.reshape(-1))
        return out.reshape(*x.shape, *x.shape)

    return kernel


@register_kernel("DiagPart")
def _diag_part(k: KernelBuild) -> Kernel:
    def kernel(x: Any) -> Any:
        if x.ndim == 0 or x.ndim % 2:
            raise InvalidArgumentError(f"The rank of the tensor should be even and positive, got shape {text(x.shape)}")
        half = x.ndim // 2
        if x.shape[:half] != x.shape[half:]:
            raise InvalidArgumentError(f"Invalid shape {text(x.shape)}: dimensions {0} and {half} do not match.")
        n = int(np.prod(x.shape[:half]))
        return x.reshape(n, n).diagonal().reshape(x.shape[:half])

    return kernel


def _range_of(k_tensor: Any) -> tuple[int, int]:
    """(lower, upper) diagonal index from the `k` argument."""
    if k_tensor.ndim > 1:
        raise InvalidArgumentError(f"diag_index must be a scalar or vector, received shape: {text(k_tensor.shape)}")
    values = ints(k_tensor)
    if not values:
        raise InvalidArgumentError("diag_index must have at least one element")
    if len(values) > 2:
        raise InvalidArgumentError(f"diag_index must have only one or two elements, received {len(values)} elements.")
    lower, upper = values[0], values[-1]
    if lower > upper:
        raise InvalidArgumentError(f"lower_diag_index must not be larger than upper_diag_index: {lower} > {upper}")
    return lower, upper


def _check_range(lower: int, upper: int, rows: int, cols: int) -> None:
    for name, d in (("lower_diag_index", lower), ("upper_diag_index", upper)):
        if not ((-rows < d < cols) or d == 0):
            raise InvalidArgumentError(f"{name} is out of bound: {d}. It must be between {-rows} and {cols}")


def _layout(lower: int, upper: int, rows: int, cols: int, align: str) -> list[tuple[int, int, int, Any, Any]]:
    """Lay out each packed row: (packed row, first packed column, length, matrix rows, matrix columns)."""
    longest = max(min(rows + min(upper, 0), cols - max(lower, 0)), 0)
    out = []
    for row, d in enumerate(range(upper, lower - 1, -1)):
        length = max(min(rows + min(d, 0), cols - max(d, 0)), 0)
        left = (d >= 0 and align in ("LEFT_RIGHT", "LEFT_LEFT")) or (d <= 0 and align in ("RIGHT_LEFT", "LEFT_LEFT"))
        start = 0 if left else longest - length
        i = np.arange(length) + max(-d, 0)
        j = np.arange(length) + max(d, 0)
        out.append((row, start, length, i, j))
    return out


def _longest(lower: int, upper: int, rows: int, cols: int) -> int:
    return max(min(rows + min(upper, 0), cols - max(lower, 0)), 0)


def matrix_diag_part(x: Any, lower: int, upper: int, padding: Any, align: str) -> Any:
    if x.ndim < 2:
        raise InvalidArgumentError(f"input must be at least 2-dim, received shape: {text(x.shape)}")
    rows, cols = x.shape[-2:]
    _check_range(lower, upper, rows, cols)
    longest = _longest(lower, upper, rows, cols)
    if lower == upper:
        _, _, _, i, j = _layout(lower, upper, rows, cols, align)[0]
        return x[..., i, j]
    out = np.full((*x.shape[:-2], upper - lower + 1, longest), padding, x.dtype)
    for row, start, length, i, j in _layout(lower, upper, rows, cols, align):
        out[..., row, start : start + length] = x[..., i, j]
    return out


def matrix_diag(diagonal: Any, lower: int, upper: int, rows: int, cols: int, padding: Any, align: str) -> Any:
    if diagonal.ndim < 1:
        raise InvalidArgumentError(f"diagonal must be at least 1-dim, received shape: {text(diagonal.shape)}")
    count = upper - lower + 1
    if lower != upper and (diagonal.ndim < 2 or diagonal.shape[-2] != count):
        raise InvalidArgumentError(
            "The number of diagonals provided in the input does not match the lower_diag_index and upper_diag_index "
            "range."
        )
    longest = diagonal.shape[-1]
    min_rows, min_cols = longest - min(upper, 0), longest + max(lower, 0)
    if rows == -1 and cols == -1:
        rows = cols = max(min_rows, min_cols)
    elif rows == -1:
        rows = min_rows
    elif cols == -1:
        cols = min_cols
    if not (rows == min_rows or cols == min_cols) or rows < min_rows or cols < min_cols:
        if rows < min_rows:
            raise InvalidArgumentError("The number of rows is too small.")
        if cols < min_cols:
            raise InvalidArgumentError("The number of columns is too small.")
        raise InvalidArgumentError(
            "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal."
        )
    batch = diagonal.shape[:-1] if lower == upper else diagonal.shape[:-2]
    packed = diagonal.reshape(*batch, count, longest)
    out = np.full((*batch, rows, cols), padding, diagonal.dtype)
    for row, start, length, i, j in _layout(lower, upper, rows, cols, align):
        out[..., i, j] = packed[..., row, start : start + length]
    return out


def matrix_set_diag(x: Any, diagonal: Any, lower: int, upper: int, align: str) -> Any:
    if x.ndim < 2:
        raise InvalidArgumentError(f"input must be at least 2-dim, received shape: {text(x.shape)}")
    if diagonal.ndim < 1:
        raise InvalidArgumentError(f"diagonal must be at least 1-dim, received shape: {text(diagonal.shape)}")
    rows, cols = x.shape[-2:]
    _check_range(lower, upper, rows, cols)
    count, longest = upper - lower + 1, _longest(lower, upper, rows, cols)
    want = (*x.shape[:-2], longest) if lower == upper else (*x.shape[:-2], count, longest)
    if diagonal.shape != want:
        raise InvalidArgumentError(
            "Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not equal to "
            f"the longests diagonal in range [{lower}:{upper}].\nInput shape: {text(x.shape)}\nDiagonal shape: "
            f"{text(diagonal.shape)}\nExpected diagonal shape: {text(want)}"
        )
    out = np.array(x)
    packed = diagonal.reshape(*x.shape[:-2], count, longest)
    for row, start, length, i, j in _layout(lower, upper, rows, cols, align):
        out[..., i, j] = packed[..., row, start : start + length]
    return out


@register_kernel(("MatrixDiag", "BatchMatrixDiag"))
def _matrix_diag(k: KernelBuild) -> Kernel:
    return lambda d: matrix_diag(d, 0, 0, -1, -1, d.dtype.type(0), "LEFT_LEFT")


def _value(tensor: Any, name: str) -> Any:
    if tensor.size != 1:
        raise InvalidArgumentError(f"{name} must have only one element, received shape {text(tensor.shape)}")
    return tensor.reshape(()).item() if tensor.dtype == object else tensor.reshape(())


@register_kernel(("MatrixDiagV2", "MatrixDiagV3"))
def _matrix_diag_v3(k: KernelBuild) -> Kernel:
    align = k.text_attr("align", "LEFT_LEFT")

    def kernel(diagonal: Any, d: Any, num_rows: Any, num_cols: Any, padding: Any) -> Any:
        lower, upper = _range_of(d)
        rows, cols = int(_value(num_rows, "num_rows")), int(_value(num_cols, "num_cols"))
        return matrix_diag(diagonal, lower, upper, rows, cols, _value(padding, "padding_value"), align)

    return kernel


@register_kernel(("MatrixDiagPart", "BatchMatrixDiagPart"))
def _matrix_diag_part(k: KernelBuild) -> Kernel:
    return lambda x: matrix_diag_part(x, 0, 0, x.dtype.type(0), "LEFT_LEFT")


@register_kernel(("MatrixDiagPartV2", "MatrixDiagPartV3"))
def _matrix_diag_part_v3(k: KernelBuild) -> Kernel:
    align = k.text_attr("align", "LEFT_LEFT")

    def kernel(x: Any, d: Any, padding: Any) -> Any:
        return matrix_diag_part(x, *_range_of(d), _value(padding, "padding_value"), align)

    return kernel


@register_kernel(("MatrixSetDiag", "BatchMatrixSetDiag"))
def _matrix_set_diag(k: KernelBuild) -> Kernel:
    return lambda x, d: matrix_set_diag(x, d, 0, 0, "LEFT_LEFT")


@register_kernel(("MatrixSetDiagV2", "MatrixSetDiagV3"))
def _matrix_set_diag_v3(k: KernelBuild) -> Kernel:
    align = k.text_attr("align", "LEFT_LEFT")
    return lambda x, diagonal, d: matrix_set_diag(x, diagonal, *_range_of(d), align)


@register_kernel(("MatrixBandPart", "BatchMatrixBandPart"))
def _matrix_band_part(k: KernelBuild) -> Kernel:
    def kernel(x: Any, num_lower: Any, num_upper: Any) -> Any:
        if x.ndim < 2:
            raise InvalidArgumentError(f"input must be at least 2-dim, received shape: {text(x.shape)}")
        for name, t in (("num_lower", num_lower), ("num_upper", num_upper)):
            if t.ndim != 0:
                raise InvalidArgumentError(f"{name} must be scalar, got shape {text(t.shape)}")
        rows, cols = x.shape[-2:]
        low, up = int(num_lower), int(num_upper)
        if low > rows:
            raise InvalidArgumentError(
                f"num_lower must be negative or less or equal to number of rows ({rows}) got: {low}"
            )
        if up > cols:
            raise InvalidArgumentError(
                f"num_upper must be negative or less or equal to number of columns ({cols}) got: {up}"
            )
        i, j = np.arange(rows)[:, None], np.arange(cols)
        inside = ((low < 0) | (i - j <= low)) & ((up < 0) | (j - i <= up))
        return np.where(inside, x, x.dtype.type(0))

    return kernel
