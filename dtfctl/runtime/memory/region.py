"""Memory of which pieces are used again: its arrays are let go of, not freed."""

from __future__ import annotations

import bisect
import mmap
import threading
import weakref
from collections import deque
from typing import Any

import numpy as np

ALIGN = 1 << 12
# Free pieces of fewer bytes are not given back to the system.
_LEAST_TRIMMED = 1 << 20
Array = np.ndarray[Any, Any]


def address(array: Array) -> int:
    """Return where an array's memory begins."""
    found: int = array.__array_interface__["data"][0]
    return found


class Blocks:
    """Which parts of a region are free: first fit, so that what was used before is used again."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free: list[tuple[int, int]] = [(0, size)]
        self._taken: dict[int, int] = {}

    def take(self, size: int) -> int | None:
        """Take a block of `size` bytes; return where it is, None when there is none."""
        size = -(-size // ALIGN) * ALIGN
        for i, (offset, length) in enumerate(self._free):
            if length >= size:
                if length == size:
                    del self._free[i]
                else:
                    self._free[i] = (offset + size, length - size)
                self._taken[offset] = size
                return offset
        return None

    def give(self, offset: int) -> bool:
        """Free a block; False if it was not taken."""
        size = self._taken.pop(offset, None)
        if size is None:
            return False
        i = bisect.bisect(self._free, (offset, 0))
        if i < len(self._free) and self._free[i][0] == offset + size:
            size += self._free.pop(i)[1]
        if i and sum(self._free[i - 1]) == offset:
            i -= 1
            offset, before = self._free[i]
            size += before
            self._free[i] = (offset, size)
        else:
            self._free.insert(i, (offset, size))
        return True

    @property
    def free(self) -> list[tuple[int, int]]:
        """Where nothing is: offsets and lengths, in order."""
        return list(self._free)

    def take_at(self, offset: int, size: int) -> bool:
        """Take a part of a free piece; False if it is not free any more."""
        i = bisect.bisect(self._free, (offset, self._size)) - 1
        if i < 0:
            return False
        start, length = self._free[i]
        after = start + length - (offset + size)
        if after < 0:
            return False
        self._free[i : i + 1] = [p for p in ((start, offset - start), (offset + size, after)) if p[1]]
        self._taken[offset] = size
        return True

    def size_of(self, offset: int) -> int:
        """Return how many bytes a taken block has."""
        return self._taken[offset]


class Memory(mmap.mmap):
    """A region's memory; the base of all arrays in it."""


class Region:
    """Arrays in blocks of a mapping, which is as large as it may ever become: only what was touched takes memory."""

    def __init__(self, memory: Memory, size: int) -> None:
        self.size = size
        self._memory = memory
        self._start = address(np.frombuffer(memory, np.uint8, 1))
        self._blocks = Blocks(size)
        self._lock = threading.Lock()
        self._touched = 0
        # Where the last of the blocks ended that were taken since the last look at idle memory.
        self._reached = 0
        # The array that all others of a block are views of, while there is one.
        self._roots: dict[int, weakref.ref[Array]] = {}
        # Blocks whose array is gone. Noted in the middle of anything else, so dealt with later.
        self._dropped: deque[int] = deque()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """Make an array in a block of its own; None when there is no room now."""
        size = dtype.itemsize
        for dim in shape:
            size *= dim
        with self._lock:
            self._collect()
            offset = self._blocks.take(size)
            if offset is None:
                return None
            fresh, end = max(offset, self._touched), -(-(offset + size) // ALIGN) * ALIGN
            self._touched = max(self._touched, end)
            self._reached = max(self._reached, end)
            array = self._root(offset, shape, dtype)
        if fresh < end:
            self._fresh(fresh, end)
        return array

    def _root(self, offset: int, shape: tuple[int, ...], dtype: Any) -> Array:
        # Its base is no array, so it is the base of all arrays that are made of it.
        array = np.ndarray(shape, dtype, self._memory, offset)
        dropped = self._dropped
        self._roots[offset] = weakref.ref(array, lambda _: dropped.append(offset))
        return array

    def _fresh(self, start: int, end: int) -> None:
        """Prepare a part that is about to be used and has no pages yet."""

    def _collect(self) -> None:
        """Free the blocks that nobody uses any more; with the lock held."""
        while self._dropped:
            offset = self._dropped.popleft()
            root = self._roots.get(offset)
            if root is not None and root() is None:
                del self._roots[offset]
                self._unused(offset)

    def _unused(self, offset: int) -> None:
        """Free a block of which nobody here holds an array any more; with the lock held."""
        self._blocks.give(offset)

    def block_of(self, array: Array) -> int | None:
        """Return the block an array lies in, None if it lies elsewhere."""
        base: Any = array.base
        if base is self._memory:
            return address(array) - self._start
        if getattr(base, "base", None) is self._memory:
            return address(base) - self._start
        return None

    def owns(self, array: Any) -> bool:
        """Tell whether the array is the one all others of its block are views of."""
        base: Any = array.base
        return base is self._memory

    def trim(self) -> None:
        """Give the system the memory back in which nothing is."""
        self._trim(0)

    def trim_idle(self) -> None:
        """Give the system the memory back that no block was in since the last call."""
        with self._lock:
            beyond, self._reached = self._reached, 0
        self._trim(beyond)

    def _trim(self, beyond: int) -> None:
        with self._lock:
            self._collect()
            free = [(max(start, beyond), min(start + length, self._touched)) for start, length in self._blocks.free]
        for start, end in free:
            with self._lock:
                if end - start < _LEAST_TRIMMED or not self._blocks.take_at(start, end - start):
                    continue
            try:
                # Takes a while, so others go on meanwhile.
                self._give_back(start, end - start)
            finally:
                with self._lock:
                    self._blocks.give(start)
                    if end == self._touched:
                        self._touched = start

    def _give_back(self, start: int, length: int) -> None:
        """Give a part's pages to the system."""
        self._memory.madvise(mmap.MADV_DONTNEED, start, length)
