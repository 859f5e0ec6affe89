"""Memory that two processes of a host share: one writes tensors into it once, the other uses them where they are.

An arena is a memfd as large as it may ever become; only what was touched takes memory. Its descriptor goes to the peer
over a unix socket, so nothing is left behind when processes die. Blocks are lent: the receiver says when nobody holds
an array of it any more.
"""

from __future__ import annotations

import bisect
import fcntl
import mmap
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError

# Smaller tensors travel with their frames.
LEAST = 1 << 16
_ALIGN = 1 << 12
# Share of the host's memory one arena may grow to.
_SHARE = 8
_LARGEST = 1 << 34


def default_size() -> int:
    """How large an arena may become, in bytes; the environment's DTF_SHM_BYTES, or a share of the host's memory."""
    asked = os.environ.get("DTF_SHM_BYTES")
    if asked:
        return max(int(asked) // _ALIGN * _ALIGN, _ALIGN)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory // _SHARE // _ALIGN * _ALIGN, _LARGEST)


class Blocks:
    """Which parts of an arena are free: first fit, so that what was used before is used again."""

    def __init__(self, size: int) -> None:
        self._free: list[tuple[int, int]] = [(0, size)]
        self._lent: dict[int, int] = {}

    def take(self, size: int) -> int | None:
        """Where a block of `size` bytes is; None when there is none."""
        size = -(-size // _ALIGN) * _ALIGN
        for i, (offset, length) in enumerate(self._free):
            if length >= size:
                if length == size:
                    del self._free[i]
                else:
                    self._free[i] = (offset + size, length - size)
                self._lent[offset] = size
                return offset
        return None

    def give(self, offset: int) -> bool:
        """A block is free again; False if it was not lent."""
        size = self._lent.pop(offset, None)
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
    def lent(self) -> int:
        """Bytes in use."""
        return sum(self._lent.values())


class Arena:
    """A sender's memory for one receiver."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = os.memfd_create("dtfctl-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            # The receiver can rely on what it maps.
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            self._memory = mmap.mmap(self.fd, size)
        except (OSError, ValueError):
            os.close(self.fd)
            raise
        self._blocks = Blocks(size)
        self._lock = threading.Lock()
        self._touched = 0

    def put(self, array: np.ndarray[Any, Any]) -> tuple[int, int] | None:
        """Copy an array into a block; its offset and length, or None when it does not fit now."""
        size = array.nbytes
        with self._lock:
            offset = self._blocks.take(size)
            if offset is None:
                return None
            fresh, end = max(offset, self._touched), -(-(offset + size) // _ALIGN) * _ALIGN
            self._touched = max(self._touched, end)
        if fresh < end:
            self._touch(fresh, end)
        place: np.ndarray[Any, Any] = np.frombuffer(self._memory, array.dtype, array.size, offset)
        np.copyto(place.reshape(array.shape), array)
        return offset, size

    def _touch(self, start: int, end: int) -> None:
        """Have the pages of a part made at once, which takes much less time than making each when it is written to."""
        try:
            self._memory.madvise(_MADV_POPULATE_WRITE, start, end - start)
        except OSError:
            # A kernel before 5.14: the pages come as they are written to.
            return

    def give(self, offset: int) -> bool:
        with self._lock:
            return self._blocks.give(offset)

    @property
    def lent(self) -> int:
        with self._lock:
            return self._blocks.lent

    def close(self) -> None:
        """Let go of it. What the receiver still maps stays until it lets go too."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


_MADV_POPULATE_READ, _MADV_POPULATE_WRITE = 22, 23


class Mapping:
    """A sender's arena, as its receiver sees it; takes over the descriptor.

    Args:
        released: called with the offset of each block nobody here holds an array of any more; in any thread, also in
            the middle of anything else, so it must do next to nothing.

    Raises:
        InvalidArgumentError: it is no arena of that size.
    """

    def __init__(self, fd: int, size: int, released: Callable[[int], None]) -> None:
        try:
            seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
            if not seals & fcntl.F_SEAL_SHRINK or os.fstat(fd).st_size != size or size % _ALIGN:
                raise InvalidArgumentError("A peer offers shared memory that could change its size")
            self._memory = mmap.mmap(fd, size)
        except (OSError, ValueError) as e:
            raise InvalidArgumentError(f"A peer's shared memory cannot be mapped: {e}") from None
        finally:
            os.close(fd)
        self._size = size
        self._released = released
        self._seen = 0
        self._held: dict[int, tuple[weakref.ref[np.ndarray[Any, Any]], int]] = {}

    def array(self, offset: int, length: int) -> np.ndarray[Any, Any]:
        """Bytes of the arena; the block is released when the last array made of them is gone.

        Raises:
            InvalidArgumentError: that is not inside the arena.
        """
        if offset % _ALIGN or not 0 < length <= self._size or offset > self._size - length:
            raise InvalidArgumentError(f"A tensor of {length} bytes at {offset} is outside a peer's shared memory")
        end = -(-(offset + length) // _ALIGN) * _ALIGN
        if end > self._seen:
            self._show(max(self._seen, offset), end)
            self._seen = end
        root: np.ndarray[Any, Any] = np.frombuffer(self._memory, np.uint8, length, offset)
        # Arrays made of this one hold on to it, not to each other.
        watch = weakref.ref(root, self._gone)
        self._held[id(watch)] = watch, offset
        return root

    def _gone(self, watch: weakref.ref[np.ndarray[Any, Any]]) -> None:
        self._released(self._held.pop(id(watch))[1])

    def _show(self, start: int, end: int) -> None:
        try:
            self._memory.madvise(_MADV_POPULATE_READ, start, end - start)
        except OSError:
            return
