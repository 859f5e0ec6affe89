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

import bisect
import contextlib
import fcntl
import mmap
import os
import threading
import weakref
from collections import deque
from typing import Any, NamedTuple, Protocol

import numpy as np

# Smaller tensors travel with their frames.
LEAST = 1 << 16
ALIGN = 1 << 12
# Shares of the host's memory an arena may grow to: one for all peers, and one for a single peer.
_COMMON_SHARE, _PRIVATE_SHARE = 4, 8
_LARGEST = 1 << 36

# Free pieces of fewer bytes are not given back to the system.
_LEAST_TRIMMED = 1 << 20
_MADV_REMOVE, _MADV_POPULATE_WRITE = 9, 23
Array = np.ndarray[Any, Any]


def default_size(share: int = _PRIVATE_SHARE) -> int:
    """How large an arena may become, in bytes; the environment's DTF_SHM_BYTES, or a share of the host's memory."""
    asked = os.environ.get("DTF_SHM_BYTES")
    if asked:
        return max(int(asked) // ALIGN * ALIGN, ALIGN)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(memory // share // ALIGN * ALIGN, _LARGEST)


class Blocks:
    """Which parts of an arena are free: first fit, so that what was used before is used again."""

    def __init__(self, size: int) -> None:
        self._free: list[tuple[int, int]] = [(0, size)]
        self._taken: dict[int, int] = {}

    def take(self, size: int) -> int | None:
        """Where a block of `size` bytes is; None when there is none."""
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
        """A block is free again; False if it was not taken."""
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
        """Take the first `size` bytes of a free piece; False if it is not free any more."""
        for i, (start, length) in enumerate(self._free):
            if start == offset and length >= size:
                self._free[i : i + 1] = [(start + size, length - size)] if length > size else []
                self._taken[offset] = size
                return True
        return False

    def size_of(self, offset: int) -> int:
        """Bytes of a taken block."""
        return self._taken[offset]


class Place(NamedTuple):
    """Where a tensor's bytes lie in shared memory: in the sender's arena or, lent by it, in the receiver's."""

    offset: int
    length: int
    is_returned: bool = False


class Memory(mmap.mmap):
    """An arena's memory in the process it belongs to; the base of all arrays in it."""


class Arena:
    """A process's memory for others.

    Args:
        is_common: all peers see it, and it lasts as long as the process.
    """

    def __init__(self, size: int, is_common: bool = False) -> None:
        self.size = size
        self.is_common = is_common
        self.fd = os.memfd_create("dtfctl-arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            # The receiver can rely on what it maps.
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            self._memory = Memory(self.fd, size)
        except (OSError, ValueError):
            os.close(self.fd)
            raise
        self._start = address(np.frombuffer(self._memory, np.uint8, 1))
        self._blocks = Blocks(size)
        self._lock = threading.Lock()
        self._touched = 0
        # The array that all others of a block are views of, while there is one; and how often each block is lent.
        self._roots: dict[int, weakref.ref[Array]] = {}
        self._loans: dict[int, int] = {}
        # Blocks whose array is gone. Noted in the middle of anything else, so dealt with later.
        self._dropped: deque[int] = deque()

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array | None:
        """An array in a block of its own; None when there is no room now."""
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
            array = self._root(offset, shape, dtype)
        if fresh < end:
            self._touch(fresh, end)
        return array

    def _root(self, offset: int, shape: tuple[int, ...], dtype: Any) -> Array:
        # Its base is no array, so it is the base of all arrays that are made of it.
        array = np.ndarray(shape, dtype, self._memory, offset)
        dropped = self._dropped
        self._roots[offset] = weakref.ref(array, lambda _: dropped.append(offset))
        return array

    def _touch(self, start: int, end: int) -> None:
        """Have the pages of a part made at once, which takes much less time than making each when it is written to."""
        # A kernel before 5.14 cannot: there the pages come as they are written to.
        with contextlib.suppress(OSError):
            self._memory.madvise(_MADV_POPULATE_WRITE, start, end - start)

    def _collect(self) -> None:
        """Free the blocks that nobody uses any more; with the lock held."""
        while self._dropped:
            offset = self._dropped.popleft()
            root = self._roots.get(offset)
            if root is not None and root() is None:
                del self._roots[offset]
                if offset not in self._loans:
                    self._blocks.give(offset)

    def block_of(self, array: Array) -> int | None:
        """The block an array lies in, None if it lies elsewhere."""
        base: Any = array.base
        if base is self._memory:
            return address(array) - self._start
        if getattr(base, "base", None) is self._memory:
            return address(base) - self._start
        return None

    def owns(self, array: Any) -> bool:
        """Whether the array is the one all others of its block are views of."""
        base: Any = array.base
        return base is self._memory

    def is_lent(self, array: Array) -> bool:
        """Whether a peer may look at the array's block."""
        return self.block_of(array) in self._loans

    @property
    def lent(self) -> int:
        """Bytes peers may look at."""
        with self._lock:
            return sum(map(self._blocks.size_of, self._loans))

    def lend(self, array: Array) -> tuple[int, int] | None:
        """Note that a peer may look at a contiguous array until it is taken back: its block, and where it begins.
        None if it lies elsewhere."""
        with self._lock:
            block = self.block_of(array)
            if block is None or not array.flags.c_contiguous:
                return None
            self._loans[block] = self._loans.get(block, 0) + 1
            return block, address(array) - self._start

    def take_back(self, block: int, count: int = 1) -> None:
        """A peer will not look at a block any more that was lent to it so many times."""
        with self._lock:
            self._collect()
            left = self._loans[block] - count
            if left:
                self._loans[block] = left
                return
            del self._loans[block]
            if block not in self._roots:
                self._blocks.give(block)

    def array_at(self, block: int, offset: int, length: int) -> Array:
        """Bytes of a block that is lent."""
        with self._lock:
            known = self._roots.get(block)
            root = None if known is None else known()
            if root is None:
                root = self._root(block, (self._blocks.size_of(block),), np.uint8)
        start = offset - block
        return root.reshape(-1).view(np.uint8)[start : start + length]

    def trim(self) -> None:
        """Give the system the memory back in which nothing is."""
        with self._lock:
            self._collect()
            free = [(start, min(start + length, self._touched) - start) for start, length in self._blocks.free]
        for start, length in free:
            with self._lock:
                if length < _LEAST_TRIMMED or not self._blocks.take_at(start, length):
                    continue
            try:
                # Takes a while, so others go on meanwhile.
                self._memory.madvise(_MADV_REMOVE, start, length)
            finally:
                with self._lock:
                    self._blocks.give(start)
                    if start + length == self._touched:
                        self._touched = start

    def close(self) -> None:
        """Let go of it if it is for one peer. What that one still maps stays until it lets go too."""
        if self.fd >= 0 and not self.is_common:
            os.close(self.fd)
            self.fd = -1


def address(array: Array) -> int:
    """Where an array's memory begins."""
    found: int = array.__array_interface__["data"][0]
    return found


class Loans:
    """What one peer may look at in an arena."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._lock = threading.Lock()
        # By where a tensor begins: its block, how long the longest of them is, and how many were lent.
        self._held: dict[int, tuple[int, int, int]] = {}

    def lend(self, array: Array) -> Place | None:
        """Where the peer finds the array, copied if it lies elsewhere; None when there is no room.

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
        """The peer does not look at a tensor any more; False if it never was allowed to."""
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
        """Bytes of a tensor that the peer was lent and sends back; None if it was not."""
        with self._lock:
            block, size, _ = self._held.get(offset, (0, 0, 0))
            return self.arena.array_at(block, offset, length) if 0 < length <= size else None

    def end(self) -> None:
        """The peer is no more."""
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
        """`new` is a copy of `old` in the common arena, to be held in its place."""


_common: Arena | None = None
_lock = threading.Lock()
_holders: weakref.WeakValueDictionary[int, Holder] = weakref.WeakValueDictionary()


def common_arena() -> Arena:
    """The arena that all peers of this process see, made at the first call.

    Raises:
        OSError, ValueError: there can be none.
    """
    global _common
    with _lock:
        if _common is None:
            _common = Arena(default_size(_COMMON_SHARE), is_common=True)
        return _common


def found_arena() -> Arena | None:
    """The common arena if there is one."""
    return _common


def trim() -> None:
    """Give the system memory back that the common arena does not need now; for when much has become free for good."""
    if _common is not None:
        _common.trim()


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array for what is likely to be sent: in the common arena, if there is one with room and the array is large."""
    arena = _common
    if arena is not None:
        size = dtype.itemsize
        for dim in shape:
            size *= dim
        if size >= LEAST:
            array = arena.empty(shape, dtype)
            if array is not None:
                return array
    return np.empty(shape, dtype)


def held_by(holder: Holder, array: Any, before: Any) -> None:
    """Note who holds a large array for long, and no longer the one it held before."""
    if before is not None:
        _holders.pop(id(before), None)
    _holders[id(array)] = holder


def _moved(old: Array, new: Array) -> None:
    holder = _holders.pop(id(old), None)
    if holder is not None:
        holder.moved(old, new)
