"""Arrays of which only the size is there: what algorithms do with them is counted and not done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ITEM = 4
"""Bytes of a value: 32-bit floats."""
CACHED_BYTES = 1 << 17
"""Merged from what a processor has at hand: of several arrays, block by block."""
MERGED, MERGED_CACHED, COPIED = 1.5, 0.75, 1.0
"""What a byte takes, of what copying one takes (runtime.collective.choice)."""


class Sized:
    """A flat array of 32-bit floats without its values.

    Args:
        count: of values.
        worked: told of what copying it would take, in bytes copied.
        nbytes: on its way, where it is encoded.
    """

    __slots__ = ("_worked", "nbytes", "size")
    itemsize = ITEM
    dtype = np.dtype(np.float32)

    def __init__(self, count: int, worked: Callable[[float], None], nbytes: float | None = None) -> None:
        self.size = count
        self.nbytes = count * ITEM if nbytes is None else nbytes
        self._worked = worked

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.size,)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, at: slice) -> Sized:
        start, stop, _ = at.indices(self.size)
        return Sized(max(stop - start, 0), self._worked)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is not np.copyto:
            return NotImplemented
        target = args[0]
        target._worked(COPIED * target.nbytes)
        return None


def merge(a: Sized, b: Sized, /, *, out: Sized) -> Sized:
    """Count what merging two arrays takes."""
    out._worked((MERGED_CACHED if out.nbytes <= CACHED_BYTES else MERGED) * out.nbytes)
    return out


def final(out: Sized) -> None:
    """Leave merged values as they are."""


class SizedCoding:
    """Counts what a codec takes.

    Args:
        share: of the bytes that are left.
        encode_s, decode_s: seconds to encode and decode a byte.
        copy_bytes_s: what a processor copies in a second.
    """

    def __init__(self, share: float, encode_s: float, decode_s: float, copy_bytes_s: float) -> None:
        self._share = share
        self._encode = encode_s * copy_bytes_s
        self._decode = decode_s * copy_bytes_s

    def encode(self, name: str, values: Sized) -> Sized:
        values._worked(self._encode * values.nbytes)
        return Sized(values.size, values._worked, values.nbytes * self._share)

    def decode(self, message: Sized, like: Sized) -> Sized:
        like._worked(self._decode * like.nbytes)
        return Sized(like.size, like._worked)
