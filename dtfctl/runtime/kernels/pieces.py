"""Work in pieces, for kernels that compute in Python or in one long call of it.

Such a call keeps the interpreter to itself: no other thread of the process runs until it ends, and who waits for the
step is answered no sooner. Between pieces others run, and a kernel whose step was told to end ends. A kernel that is
registered with `pieces=True` may use what is here; it needs no step for that, so what has none (constants that are
computed beforehand) may call it too.
"""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework.cancellation import CancellationToken

ITEMS = 256
"""Items that Python code looks at one by one."""
BLOCK = 1 << 16
"""Items that one call of a library goes through."""
BYTES = 1 << 20
"""Bytes that one call of a library goes through."""


class _Told(threading.local):
    """What tells the kernel that runs in this thread to end."""

    token: CancellationToken | None = None


_told = _Told()


def look() -> None:
    """Look whether the step of the kernel that runs in this thread was told to end.

    Raises:
        CancelledError: it was.
    """
    token = _told.token
    if token is not None:
        token.check()


def in_step(kernel: Callable[..., Any], takes_step: bool) -> Callable[..., Any]:
    """Make a kernel that takes its step first, and ends with it, of one that works in pieces."""

    def run(step: Any, *inputs: Any) -> Any:
        # A step may run another inside, as datasets do.
        before, _told.token = _told.token, step.cancellation
        try:
            return kernel(step, *inputs) if takes_step else kernel(*inputs)
        finally:
            _told.token = before

    return run


def each(values: Iterable[Any]) -> Iterable[Any]:
    """Go through items, those of an array as Python's own, in the order of its memory, and look every now and then."""
    if isinstance(values, np.ndarray):
        if values.size > ITEMS:
            return _each_of_array(values.reshape(-1))
        look()
        return values.reshape(-1).tolist()
    if isinstance(values, list) and len(values) <= ITEMS:
        look()
        return values
    return _each_of(iter(values))


def _each_of_array(flat: Any) -> Iterator[Any]:
    for start in range(0, flat.size, ITEMS):
        look()
        yield from flat[start : start + ITEMS].tolist()


def _each_of(items: Iterator[Any]) -> Iterator[Any]:
    while part := list(itertools.islice(items, ITEMS)):
        look()
        yield from part


def blocks(count: int, size: int | None = None) -> Iterator[slice]:
    """Cut so many items, or bytes, in blocks that a library's call goes through; of `BLOCK` by themselves."""
    size = BLOCK if size is None else size
    for start in range(0, count, size):
        look()
        yield slice(start, min(start + size, count))


def listed(values: Any) -> list[Any]:
    """List an array's items as `tolist` does: nested as its dimensions."""
    if values.ndim == 0:
        item: list[Any] = values.tolist()
        return item
    rows: list[Any] = []
    width = max(1, values.size // max(1, values.shape[0]))
    for block in blocks(values.shape[0], max(1, BLOCK // width)):
        rows += values[block].tolist()
    return rows


def array_of(items: Sequence[Any], dtype: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Make an array of a list of numbers, or of objects where that is the type, as they are."""
    out = np.empty(len(items), dtype)
    for block in blocks(len(items)):
        out[block] = items[block]
    return out if shape is None else out.reshape(shape)


def repeat(values: Any, counts: Any) -> Any:
    """Repeat each row of an array as often as is said for it, or all equally often, as `np.repeat` does on axis 0."""
    counts = np.broadcast_to(counts, (len(values),))
    total = int(counts.sum())
    if total <= BLOCK:
        return np.repeat(values, counts, axis=0)
    # All of these let others run, which `np.repeat` does not.
    ends = np.cumsum(counts)
    return values[np.cumsum(np.bincount(ends[:-1], minlength=total)[:total])]


def update_at(ufunc: np.ufunc, target: Any, index: Any, values: Any) -> None:
    """Do what `ufunc.at` does, of a vector of indices and a value, or row of them, for each."""
    if len(index) <= BLOCK:
        ufunc.at(target, index, values)
        return
    for block in blocks(len(index)):
        ufunc.at(target, index[block], values[block])


def joined(parts: Sequence[bytes], separator: bytes = b"") -> bytes:
    """Join strings, as `separator.join` does."""
    if len(parts) <= ITEMS and _is_short(parts, separator):
        return separator.join(parts)
    out = io.BytesIO()
    for block in blocks(len(parts), ITEMS):
        if block.start:
            _write(out, separator)
        some = parts[block]
        if _is_short(some, separator):
            out.write(separator.join(some))
            continue
        for i, part in enumerate(some):
            if i:
                _write(out, separator)
            _write(out, part)
    return out.getvalue()


def _is_short(parts: Sequence[bytes], separator: bytes) -> bool:
    return sum(map(len, parts)) + len(parts) * len(separator) <= BYTES


def _write(out: io.BytesIO, part: bytes) -> None:
    if len(part) <= BYTES:
        out.write(part)
        return
    view = memoryview(part)
    for block in blocks(len(part), BYTES):
        out.write(view[block])


def filled(length: int, by: bytes) -> Iterator[bytes]:
    """Give a string of one byte again and again, in parts."""
    whole = by * min(length, BYTES)
    for block in blocks(length, BYTES):
        yield whole[: block.stop - block.start]


def changed(value: bytes, change: Callable[[bytes], bytes], multiple: int = 1) -> bytes:
    """Change a string part by part, where its parts have nothing to do with each other.

    Args:
        multiple: parts end after multiples of so many bytes.
    """
    if len(value) <= BYTES:
        return change(value)
    out = io.BytesIO()
    for block in blocks(len(value), BYTES // multiple * multiple):
        out.write(change(value[block]))
    return out.getvalue()
