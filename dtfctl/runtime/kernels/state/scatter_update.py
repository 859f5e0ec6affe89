"""In-place updates of the rows an index names, with TensorFlow's meaning of repeated indices: one after the other.

An update touches only the rows named. Repeated indices are applied in rounds, the n-th occurrence of every index in
round n, which is exactly the sequential result; where one index repeats very often, sums, products and extremes are
combined first (floating-point sums then round differently).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.scatter import distinct
from dtfctl.runtime.kernels.compiled.jit import compiled, loops
from dtfctl.runtime.kernels.state.common import shape_text

RowUpdate = Callable[[Any, Any], Any]

# Rounds beyond this cost more than combining first.
_MAX_ROUNDS = 32
# Indices that Python compares faster than numpy, and without giving the interpreter's lock away, which costs both sides
# where another thread waits for it.
_FEW = 128
# Bytes of rows that numpy takes, or changes in a few passes; for more a compiled loop is worth loading.
_LEAST_BYTES = 1 << 18


def _truncated_divide(a: Any, b: Any) -> Any:
    if a.dtype.kind not in "iu":
        return a / b
    quotient = np.abs(a) // np.abs(b) if a.dtype.kind == "i" else a // b
    return np.where((a < 0) != (b < 0), -quotient, quotient).astype(a.dtype) if a.dtype.kind == "i" else quotient


UPDATES: dict[str, RowUpdate | None] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": _truncated_divide,
    "Min": np.minimum,
    "Max": np.maximum,
    "Update": None,
}
SIGNS = {"Add": 1, "Sub": -1}
# How updates of one row may be combined before they are applied.
_COMBINE: dict[str, Any] = {
    "Add": np.add,
    "Sub": np.add,
    "Mul": np.multiply,
    "Min": np.minimum,
    "Max": np.maximum,
}


def rounds(indices: Any) -> Iterator[Any]:
    """Split positions of a vector of indices into sets without repetition; the n-th occurrences are the n-th set.

    Yields:
        int64 vectors of positions (or slice(None) when nothing repeats).
    """
    if _repeats(indices):
        yield from _occurrences(indices)
    else:
        yield slice(None)


def _occurrences(indices: Any) -> Iterator[Any]:
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    first = np.empty(ordered.size, bool)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    occurrence = np.arange(ordered.size) - np.repeat(starts, np.diff(np.append(starts, ordered.size)))
    by_round = np.argsort(occurrence, kind="stable")
    bounds = np.cumsum(np.bincount(occurrence))
    begin = 0
    for end in bounds:
        yield order[by_round[begin:end]]
        begin = end


def _repeats(indices: Any) -> bool:
    """Tell whether a vector names anything twice; sorting numbers alone takes a quarter of finding their order."""
    if indices.size <= _FEW:
        numbers = indices.tolist()
        return len(set(numbers)) < len(numbers)
    found = distinct(indices)
    if found is not None:
        return bool(len(found[0]) < indices.size)
    ordered = np.sort(indices)
    return bool((ordered[1:] == ordered[:-1]).any())


def row_loop(loop: Callable[..., None], dtype: Any, nbytes: int) -> Callable[..., None] | None:
    """Compile a loop over rows of that many bytes in all; None where numpy is to do it."""
    return compiled(loop, dtype, nbytes, _LEAST_BYTES)


def scatter_rows(target: Any, indices: Any, updates: Any, kind: str) -> None:
    """Update rows of `target` in place.

    Args:
        target: array of rank >= 1, written.
        indices: vector of row numbers, or a tuple of vectors for leading dimensions; all in range.
        updates: one row for each index, or a scalar for all.
        kind: a key of `UPDATES`.
    """
    function = UPDATES[kind]
    if function is None:
        target[indices] = updates
        return
    flat: Any = (
        indices if not isinstance(indices, tuple) else np.ravel_multi_index(indices, target.shape[: len(indices)])
    )
    scalar = updates.ndim == 0
    if kind in SIGNS and not scalar and target.ndim > 1 and target.flags.c_contiguous and updates.dtype == target.dtype:
        loop = row_loop(loops.add_rows, updates.dtype, updates.nbytes)
        if loop is not None:
            rows = np.ascontiguousarray(updates).reshape(flat.size, -1)
            loop(target.reshape(-1, rows.shape[1]), np.ascontiguousarray(flat), rows, target.dtype.type(SIGNS[kind]))
            return
    if not _repeats(flat):
        _apply(target, indices, function, updates)
        return
    combine = _COMBINE.get(kind)
    if combine is not None and flat.size > _MAX_ROUNDS and target.dtype.kind in "iufc":
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        if np.diff(np.append(starts, ordered.size)).max() > _MAX_ROUNDS:
            rows = updates[order] if not scalar else np.broadcast_to(updates, (flat.size, *([1] * (target.ndim - 1))))
            combined = combine.reduceat(rows, starts, axis=0)
            _apply(target, _pick(indices, order[starts]), function, combined)
            return
    for positions in _occurrences(flat):
        given = updates if scalar else updates.take(positions, axis=0)
        _apply(target, _pick(indices, positions), function, given)


def _apply(target: Any, chosen: Any, function: RowUpdate, updates: Any) -> None:
    """Update rows that are all different."""
    rows = target[chosen] if isinstance(chosen, tuple) else target.take(chosen, axis=0)
    if isinstance(function, np.ufunc) and updates.dtype == rows.dtype and isinstance(rows, np.ndarray):
        function(rows, updates, out=rows)
        target[chosen] = rows
    else:
        target[chosen] = function(rows, updates)


def _pick(indices: Any, positions: Any) -> Any:
    return tuple(i[positions] for i in indices) if isinstance(indices, tuple) else indices[positions]


def check_rows(indices: Any, limit: int) -> None:
    """Raise TensorFlow's error unless all indices are in [0, limit)."""
    if not indices.size:
        return
    if indices.min() < 0 or indices.max() >= limit:
        flat = indices.reshape(-1)
        bad = int(np.flatnonzero((flat < 0) | (flat >= limit))[0])
        raise InvalidArgumentError(f"indices{_where(indices.shape, bad)} = {flat[bad]} is not in [0, {limit})")


def _where(shape: tuple[int, ...], position: int) -> str:
    """TensorFlow's SliceDebugString: [i,j] of a flat position, nothing for a scalar."""
    if not shape:
        return ""
    return "[" + ",".join(str(int(i)) for i in np.unravel_index(position, shape)) + "]"


def scatter_nd(target: Any, indices: Any, updates: Any, kind: str, policy: str = "") -> None:
    """Update slices of `target` in place: `indices[..., :]` names one each (tf.scatter_nd_update and its kin).

    Raises:
        InvalidArgumentError: shapes do not fit or an index is out of range, with TensorFlow's texts.
    """
    shape = target.shape
    if not shape:
        raise InvalidArgumentError(f"Output must be at least 1-D, got shape: {shape_text(shape)}")
    if target.size == 0 and indices.size and updates.size:
        raise InvalidArgumentError(
            f"Indices and updates specified for empty output.  indices shape: {shape_text(indices.shape)}"
        )
    depth = indices.shape[-1] if indices.ndim > 1 else 1
    batch = indices.ndim - 1 if indices.ndim > 1 else 1
    outer = indices.shape[:batch]
    if updates.ndim < batch or updates.shape[:batch] != outer:
        raise InvalidArgumentError(
            f"Dimensions [0,{batch}) of indices[shape={shape_text(indices.shape)}] must match dimensions "
            f"[0,{batch}) of "
            f"updates[shape={shape_text(updates.shape)}]"
        )
    if depth > len(shape) or updates.shape[batch:] != shape[depth:]:
        raise InvalidArgumentError(
            f"Dimensions [{depth},{len(shape)}) of input[shape={shape_text(shape)}] must match dimensions "
            f"[{depth},{updates.ndim}) of updates[shape={shape_text(updates.shape)}]"
        )
    if depth == 0:
        if not target.size:
            return
        raise InvalidArgumentError(
            "Only indices.shape[-1] values between 1 and 5 are currently supported.  Requested rank: 0"
        )
    rows = indices.reshape(-1, depth)
    flat_updates = updates.reshape(rows.shape[0], *shape[depth:])
    if target.size == 0:
        return
    limits = np.array(shape[:depth])
    bad = ((rows < 0) | (rows >= limits)).any(axis=1)
    if bad.any():
        if policy != "IGNORE":
            position = int(np.flatnonzero(bad)[0])
            where = _where(indices.shape[:-1], position)
            index = ", ".join(str(int(i)) for i in rows[position])
            raise InvalidArgumentError(f"indices{where} = [{index}] does not index into shape {shape_text(shape)}")
        rows, flat_updates = rows[~bad], flat_updates[~bad]
    scatter_rows(target, tuple(np.ascontiguousarray(c) for c in rows.T), flat_updates, kind)
