"""Scattering rows into an array: the one place that decides how duplicates are combined quickly."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl import later
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import is_low_precision

# A table of distinct values has at most so many places for each value, and so many besides.
_MOST_APART, _ANYHOW_APART = 16, 4096


def group_starts(sorted_ids: Any) -> Any:
    """Positions at which a new value starts in a non-empty vector: a group each where it is sorted."""
    change = np.empty(len(sorted_ids), np.bool_)
    change[0] = True
    np.not_equal(sorted_ids[1:], sorted_ids[:-1], out=change[1:])
    return np.flatnonzero(change)


def add_up(indices: Any, rows: Any, count: int) -> Any:
    """Add up `rows[i]` for each number in `indices`, in their order; the sums of 0 to `count` - 1.

    Args:
        indices: [n], each at least 0 and less than `count`. rows: [n, ...] of float32 or float64.
    """
    if not rows.size:
        return np.zeros((count, *rows.shape[1:]), rows.dtype)
    size = len(indices)
    if not later.arrived("math"):  # on its way to this host: the same sums, slower
        sums = np.zeros((count, *rows.shape[1:]), rows.dtype)
        np.add.at(sums, indices, rows)
        return sums
    from scipy.sparse import csc_array  # who does not come here need not wait for it

    # A column for each of the rows, with a single one in it.
    chooser = csc_array((np.ones(size, rows.dtype), indices, np.arange(size + 1)), shape=(count, size))
    return (chooser @ np.ascontiguousarray(rows).reshape(size, -1)).reshape(count, *rows.shape[1:])


def distinct(values: Any) -> tuple[Any, Any] | None:
    """Find where each value of a vector of integers occurs first, in this order, and which of those each value is.

    None where the numbers are too far apart to be looked up in a table.
    """
    least, most = (int(values.min()), int(values.max())) if values.size else (0, 0)
    if values.dtype.kind not in "iu" or most - least >= _MOST_APART * values.size + _ANYHOW_APART:
        return None
    offsets = values.astype(np.int64) - least if least or values.dtype != np.int64 else values
    places, order = np.empty(most - least + 1, np.int64), np.arange(values.size)
    # The last assignment stays: that of the first of equal values.
    places[offsets[::-1]] = order[::-1]
    first = np.flatnonzero(places[offsets] == order)
    places[offsets[first]] = order[: first.size]
    return first, places[offsets]


def scatter_into(out: Any, indices: Any, rows: Any, ufunc: Any | None) -> Any:
    """Combine `rows[i]` into `out[indices[i]]` in place and return `out`.

    Args:
        out: array the caller owns.
        indices: [n], valid positions along the first axis.
        rows: [n, ...] of `out`'s type and row shape (or broadcastable to it).
        ufunc: np.add, subtract, multiply, divide, maximum, minimum; None assigns, where the last of equal indices wins.
    """
    if len(indices) == 0:
        return out
    if ufunc is None:
        # numpy assigns in order, so the last one wins.
        out[indices] = rows
        return out
    if ufunc is np.subtract:
        if out.dtype == object:
            raise InvalidArgumentError("Strings cannot be subtracted")
        return scatter_into(out, indices, np.negative(rows), np.add)
    if len(indices) == 1 or _all_distinct(indices):
        out[indices] = ufunc(out[indices], rows)
        return out
    rows = np.broadcast_to(rows, (len(indices), *out.shape[1:]))
    # out /= a; out /= b is what TensorFlow does; dividing by the product differs only in rounding and overflow.
    combine = np.multiply if ufunc is np.divide else ufunc
    found = distinct(indices) if combine is np.add and out.dtype in (np.float32, np.float64) else None
    if found is not None:
        first, inverse = found
        out[indices[first]] += add_up(inverse, rows, len(first))
        return out
    if out.ndim == 1 and combine is np.add and out.dtype == np.float64:
        out += np.bincount(indices, rows, minlength=len(out))
        return out
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    starts = group_starts(ordered)
    rows = rows[order]
    low = is_low_precision(out.dtype)
    if low:
        rows = rows.astype(np.float32)
    if len(starts) == len(ordered):
        combined = rows
    else:
        combined = combine.reduceat(rows, starts, axis=0, dtype=rows.dtype)
    where = ordered[starts]
    held = out[where].astype(np.float32) if low else out[where]
    out[where] = ufunc(held, combined).astype(out.dtype, copy=False)
    return out


def _all_distinct(indices: Any) -> bool:
    """Tell whether a vector is strictly increasing (a cheap test, sufficient for distinct items)."""
    return bool(np.all(indices[1:] > indices[:-1]))
