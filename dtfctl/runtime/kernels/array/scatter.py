"""Scattering rows into an array: the one place that decides how duplicates are combined quickly."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import is_low_precision


def group_starts(sorted_ids: Any) -> Any:
    """Positions at which a new value starts in a non-empty vector: a group each where it is sorted."""
    change = np.empty(len(sorted_ids), np.bool_)
    change[0] = True
    np.not_equal(sorted_ids[1:], sorted_ids[:-1], out=change[1:])
    return np.flatnonzero(change)


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
