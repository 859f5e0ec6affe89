"""Values as text: what Print, PrintV2, Assert and StringFormat show (TensorFlow's Tensor::SummarizeValue)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.kernels.pieces import each


def float_text(value: float, single: bool) -> str:
    """Write a float in the shorter of the two precisions that gives the value back."""
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    low, high = (6, 9) if single else (15, 17)
    text = f"{value:.{low}g}"
    back = np.float32(text) if single else float(text)
    return text if back == value else f"{value:.{high}g}"


def escape(value: bytes) -> str:
    """C escapes for control characters, quotes and bytes that are no UTF-8; other characters stay."""
    short = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    out = []
    for char in value.decode("utf-8", "surrogateescape"):
        code = ord(char)
        if 0xDC80 <= code <= 0xDCFF:
            code -= 0xDC00
            out.append(f"\\{code:03o}")
        else:
            out.append(short.get(code) or (char if code >= 32 and code != 127 else f"\\{code:03o}"))
    return "".join(out)


def _element(value: Any, dtype: DType, v2: bool) -> str:
    if dtype is dtypes.string:
        return f'"{escape(value)}"' if v2 else escape(value)
    if dtype.is_bool:
        return "1" if value else "0"
    if dtype.is_complex:
        return "?"
    if dtype.is_floating:
        return float_text(float(value), dtype is not dtypes.float64)
    if dtype.is_object:
        return repr(value) if dtype is not dtypes.variant else f"<{type(value).__name__}>"
    return str(int(value))


def summarize(value: Any, dtype: DType, entries: int, v2: bool) -> str:
    """Write the tensor as text.

    Args:
        entries: with `v2` elements shown at each end of each dimension, without it elements shown in all; -1: all.
    """
    array = np.asarray(value)
    dtype = dtype.base_dtype
    if v2:
        return _nested(array, dtype, array.size + 1 if entries < 0 else entries)
    flat = array.reshape(-1)
    limit = flat.size if entries < 0 else min(entries, flat.size)
    items = [_element(v, dtype, False) for v in flat[:limit]]
    if array.ndim == 0:
        return " ".join(items) + ("..." if flat.size > limit else "")
    out: list[str] = []
    _rows(array.shape, 0, items, [0], limit, out)
    return "".join(out) + ("..." if flat.size > limit else "")


def _rows(shape: tuple[int, ...], dim: int, items: list[str], at: list[int], limit: int, out: list[str]) -> None:
    if at[0] >= limit:
        return
    if dim == len(shape) - 1:
        for i in range(shape[dim]):
            if at[0] >= limit:
                if dim != 0:
                    out.append("...")
                return
            out.append((" " if i else "") + items[at[0]])
            at[0] += 1
        return
    for _ in range(shape[dim]):
        opened = at[0] < limit
        if opened:
            out.append("[")
        _rows(shape, dim + 1, items, at, limit, out)
        if opened or at[0] < limit:
            out.append("]")


def _nested(array: Any, dtype: DType, ends: int, dim: int = 0, rank: int | None = None) -> str:
    rank = array.ndim if rank is None else rank
    if dim == rank:
        return _element(array[()] if isinstance(array, np.ndarray) else array, dtype, True)
    count = array.shape[0]
    gap = " " if dim == rank - 1 else "\n" * (rank - dim - 1) + " " * (dim + 1)
    parts = [_nested(array[i], dtype, ends, dim + 1, rank) for i in each(range(min(ends, count)))]
    if count > 2 * ends:
        parts.append("...")
    parts += [_nested(array[i], dtype, ends, dim + 1, rank) for i in each(range(max(ends, count - ends), count))]
    return "[" + gap.join(parts) + "]"
