"""A peer's arena (memory/shared_memory.py) as the one that receives tensors in it sees it."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError, UnavailableError
from dtfctl.runtime.memory.region import ALIGN, address
from dtfctl.runtime.memory.shared_memory import WORD, Place

_MADV_POPULATE_READ = 22
Held = dict[int, tuple[weakref.ref[np.ndarray[Any, Any]], int]]


class Mapping:
    """A sender's arena, as its receiver sees it; takes over the descriptor.

    Args:
        released: called with the offset of each tensor nobody here holds an array of any more; in any thread, also in
            the middle of anything else, so it must do next to nothing.

    Raises:
        InvalidArgumentError: it is no arena of that size.
    """

    def __init__(self, fd: int, size: int, released: Callable[[int], None]) -> None:
        try:
            seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
            if not seals & fcntl.F_SEAL_SHRINK or os.fstat(fd).st_size != size or size % ALIGN:
                raise InvalidArgumentError("A peer offers shared memory that could change its size")
            self._memory = mmap.mmap(fd, size)
        except (OSError, ValueError) as e:
            raise InvalidArgumentError(f"A peer's shared memory cannot be mapped: {e}") from None
        finally:
            os.close(fd)
        self._size = size
        self._start = address(np.frombuffer(self._memory, np.uint8, 1))
        self._released = released
        self._seen = 0
        self._lock = threading.Lock()
        self._has_ended = False
        self._held: Held = {}

    def array(self, offset: int, length: int) -> np.ndarray[Any, Any]:
        """Return bytes of the arena; they are released when the last array made of them is gone.

        Raises:
            InvalidArgumentError: that is not inside the arena.
            UnavailableError: the link has ended.
        """
        if offset % WORD or not 0 < length <= self._size or not 0 <= offset <= self._size - length:
            raise InvalidArgumentError(f"A tensor of {length} bytes at {offset} is outside a peer's shared memory")
        end = -(-(offset + length) // ALIGN) * ALIGN
        if end > self._seen:
            start = max(self._seen, offset // ALIGN * ALIGN)
            # A kernel before 5.14 cannot: there the pages come as they are read.
            with contextlib.suppress(OSError):
                self._memory.madvise(_MADV_POPULATE_READ, start, end - start)
            self._seen = end
        root = np.ndarray((length,), np.uint8, self._memory, offset)
        # Arrays made of this one hold on to it, not to each other.
        watch = weakref.ref(root, self._gone)
        with self._lock:
            if self._has_ended:
                raise UnavailableError("A tensor in shared memory came over a connection that has ended")
            self._held[id(watch)] = watch, offset
        return root

    def end(self) -> Held:
        """Make no more arrays; return those there are, which empties as they go."""
        with self._lock:
            self._has_ended = True
        return self._held

    def _gone(self, watch: weakref.ref[np.ndarray[Any, Any]]) -> None:
        held = self._held.pop(id(watch), None)
        # None where the array came too late and was given to nobody.
        if held is not None:
            self._released(held[1])

    def find(self, array: np.ndarray[Any, Any]) -> Place | None:
        """Return where an array is in the peer's arena, if it begins where a received tensor does."""
        root: Any = array.base
        if getattr(root, "base", None) is not self._memory or not array.flags.c_contiguous:
            return None
        at = address(array)
        return Place(at - self._start, array.nbytes, True) if at == address(root) else None
