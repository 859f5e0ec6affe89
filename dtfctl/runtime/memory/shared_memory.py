"""Memory that processes of a host share: one has tensors in it, the others use them where they are.

An arena is a memfd as large as it may ever become; only what was touched takes memory. Its descriptor goes to peers
over unix sockets, so nothing is left behind when processes die.

A block of an arena is in use while an array of its owner lies in it, and while it is lent: a peer that was told where a
tensor is says when nobody there holds an array of it any more. A peer that cannot say so any more holds its loans until
its process has ended.

A process has one arena that all its peers see. What is likely to be sent lies there from the start: variables that were
sent before, and results that go to another task.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import weakref
from typing import Any, NamedTuple, Protocol

import numpy as np

from dtfctl.runtime.memory import kept_memory
from dtfctl.runtime.memory.region import ALIGN, Array, Memory, Region, address

# Smaller tensors travel with their frames.
LEAST = 1 << 16
# Where a tensor may begin, in bytes.
WORD = 8
# Shares of the host's memory an arena may grow to: one for all peers, and one for a single peer.
_COMMON_SHARE, _PRIVATE_SHARE = 4, 8
_LARGEST = 1 << 36
_MADV_REMOVE, _MADV_POPULATE_WRITE = 9, 23


def default_size(share: int = _PRIVATE_SHARE) -> int:
    """Return how large an arena may become, in bytes; the environment's DTF_SHM_BYTES,
    or a share of the host's memory."""
    asked = os.environ.get("DTF_SHM_BYTES")
    if asked:
        return max(int(asked) // ALIGN * ALIGN, ALIGN)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory // share // ALIGN * ALIGN, _LARGEST)


class Place(NamedTuple):
    """Where a tensor's bytes lie in shared memory: in the sender's arena or, lent by it, in the receiver's."""

    offset: int
    length: int
    is_returned: bool = False


class Arena(Region):
    """A process's memory for others.

    Args:
        is_common: all peers see it, and it lasts as long as the process.
    """

    def __init__(self, size: int, is_common: bool = False) -> None:
        self.is_common = is_common
        self.fd = os.memfd_create("dtfctl-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            # The receiver can rely on what it maps.
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            super().__init__(Memory(self.fd, size), size)
        except (OSError, ValueError):
            os.close(self.fd)
            raise
        # How often each block is lent.
        self._loans: dict[int, int] = {}

    def _fresh(self, start: int, end: int) -> None:
        # All pages at once take much less time than each when it is written to.
        # A kernel before 5.14 cannot: there the pages come as they are written to.
        with contextlib.suppress(OSError):
            self._memory.madvise(_MADV_POPULATE_WRITE, start, end - start)

    def _unused(self, offset: int) -> None:
        if offset not in self._loans:
            super()._unused(offset)

    def _give_back(self, start: int, length: int) -> None:
        self._memory.madvise(_MADV_REMOVE, start, length)

    def is_lent(self, array: Array) -> bool:
        """Tell whether a peer may look at the array's block."""
        return self.block_of(array) in self._loans

    @property
    def lent(self) -> int:
        """Bytes peers may look at."""
        with self._lock:
            return sum(map(self._blocks.size_of, self._loans))

    def lend(self, array: Array) -> tuple[int, int] | None:
        """Note that a peer may look at a contiguous array until it is taken back: its block, and where it begins.
        None if it lies elsewhere, or where arrays do not begin for a peer, as a part of another one may."""
        with self._lock:
            block = self.block_of(array)
            if block is None or not array.flags.c_contiguous:
                return None
            offset = address(array) - self._start
            if offset % WORD:
                return None
            self._loans[block] = self._loans.get(block, 0) + 1
            return block, offset

    def take_back(self, block: int, count: int = 1) -> None:
        """Take back a block at which a peer will not look any more, and that was lent to it so many times."""
        with self._lock:
            self._collect()
            left = self._loans[block] - count
            if left:
                self._loans[block] = left
                return
            del self._loans[block]
            if block not in self._roots:
                super()._unused(block)

    def array_at(self, block: int, offset: int, length: int) -> Array:
        """Return bytes of a block that is lent."""
        with self._lock:
            known = self._roots.get(block)
            root = None if known is None else known()
            if root is None:
                root = self._root(block, (self._blocks.size_of(block),), np.uint8)
        start = offset - block
        return root.reshape(-1).view(np.uint8)[start : start + length]

    def close(self) -> None:
        """Let go of it if it is for one peer. What that one still maps stays until it lets go too."""
        if self.fd >= 0 and not self.is_common:
            os.close(self.fd)
            self.fd = -1


class Loans:
    """What one peer may look at in an arena."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._lock = threading.Lock()
        # By where a tensor begins: its block, how long the longest of them is, and how many were lent.
        self._held: dict[int, tuple[int, int, int]] = {}

    def lend(self, array: Array) -> Place | None:
        """Lend an array: return where the peer finds it, copied if it lies elsewhere; None when there is no room.

        Whoever holds an array that had to be copied, and can, holds the copy from now on.
        """
        size = array.nbytes
        where = self.arena.lend(array)
        if where is None:
            copy = self.arena.empty(array.shape, array.dtype)
            if copy is None:
                return None
            np.copyto(copy, array)
            where = self.arena.lend(copy)
            assert where is not None
            if self.arena.is_common:
                _moved(array, copy)
        block, offset = where
        with self._lock:
            _, longest, count = self._held.get(offset, (block, 0, 0))
            self._held[offset] = block, max(size, longest), count + 1
        return Place(offset, size)

    def take_back(self, offset: int) -> bool:
        """Take back a tensor at which the peer does not look any more; False if it never was allowed to."""
        with self._lock:
            held = self._held.get(offset)
            if held is None:
                return False
            block, size, count = held
            if count > 1:
                self._held[offset] = block, size, count - 1
            else:
                del self._held[offset]
        self.arena.take_back(block)
        return True

    def array(self, offset: int, length: int) -> Array | None:
        """Return bytes of a tensor that the peer was lent and sends back; None if it was not."""
        with self._lock:
            block, size, _ = self._held.get(offset, (0, 0, 0))
            return self.arena.array_at(block, offset, length) if 0 < length <= size else None

    def end(self) -> None:
        """Take back everything: the peer is no more."""
        with self._lock:
            held, self._held = self._held, {}
        for block, _, count in held.values():
            self.arena.take_back(block, count)

    def __len__(self) -> int:
        return len(self._held)


# The process's common arena -------------------------------------------------------------------------------------------


class Holder(Protocol):
    """Who holds an array for long."""

    def moved(self, old: Array, new: Array) -> None:
        """Hold `new`, a copy of `old` in the common arena, in the place of `old`."""


_common: Arena | None = None
_lock = threading.Lock()
_holders: weakref.WeakValueDictionary[int, Holder] = weakref.WeakValueDictionary()


def common_arena() -> Arena:
    """Return the arena that all peers of this process see, made at the first call.

    Raises:
        OSError, ValueError: there can be none.
    """
    global _common
    with _lock:
        if _common is None:
            _common = Arena(default_size(_COMMON_SHARE), is_common=True)
        return _common


def found_arena() -> Arena | None:
    """Return the common arena if there is one."""
    return _common


def trim() -> None:
    """Give the system memory back that the common arena does not need now; for when much has become free for good."""
    if _common is not None:
        _common.trim()


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Make an array for what is likely to be sent: in the common arena,
    if there is one with room and the array is large."""
    arena = _common
    if arena is not None:
        size = dtype.itemsize
        for dim in shape:
            size *= dim
        if size >= LEAST:
            array = arena.empty(shape, dtype)
            if array is not None:
                return array
    return kept_memory.empty(shape, dtype)


def held_by(holder: Holder, array: Any, before: Any) -> None:
    """Note who holds a large array for long, and no longer the one it held before."""
    if before is not None:
        _holders.pop(id(before), None)
    _holders[id(array)] = holder


def holder_of(array: Array) -> Holder | None:
    """Return who is known to hold an array for long; or held it, or another one in its place."""
    return _holders.get(id(array))


def _moved(old: Array, new: Array) -> None:
    holder = _holders.pop(id(old), None)
    if holder is not None:
        holder.moved(old, new)
