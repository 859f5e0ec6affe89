"""Large arrays in memory that this process keeps for the next ones.

What comes through sockets is as large in each step as in the one before. The allocator gives large arrays back to the
system when they are freed, and the system has to find and clear pages for the next ones; a virtual machine may have
given them to its host meanwhile, and gets them from there again at many times the price. So the memory of such arrays
stays, as long as it is used every now and then.
"""

from __future__ import annotations

import logging
import mmap
import os
import threading
import time
from typing import Any

import numpy as np

from dtfctl import guard
from dtfctl.runtime.memory.region import ALIGN, Array, Memory, Region

log = logging.getLogger(__name__)
# Smaller arrays are left to the allocator, which keeps such memory itself.
LEAST = 1 << 20
# Memory nobody has used for as long is given back, twice as late at most.
IDLE_S = 60.0
# The share of the host's memory that may be kept, and the most.
_SHARE = 4
_LARGEST = 1 << 36


class Kept(Region):
    """The memory of one process.

    Raises:
        OSError, ValueError: the system grants no address space.
    """

    def __init__(self, size: int) -> None:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        super().__init__(Memory(-1, size, flags=flags), size)
        try:
            # Sockets moved twice as much between large pages as between small ones (docs/benchmarks.md).
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        except OSError as e:
            log.info("large arrays are in small pages: %s", e.strerror)
        guard.forever(self._look_after, name="dtf-kept-memory").start()

    def _look_after(self) -> None:
        while True:
            time.sleep(IDLE_S)
            try:
                self.trim_idle()
            except OSError as e:
                log.warning("memory that is not used stays with this process: %s", e.strerror)


_lock = threading.Lock()
_kept: Kept | None = None
_is_refused = False


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Make an array, in memory that is used again once nobody holds it if it is large.

    Raises:
        MemoryError, ValueError: as of `numpy.empty`.
    """
    size = dtype.itemsize
    for dim in shape:
        size *= dim
    if size >= LEAST:
        kept = _kept or _begin()
        array = None if kept is None else kept.empty(shape, dtype)
        if array is not None:
            return array
    return np.empty(shape, dtype)


def owns(array: Any) -> bool:
    """Tell whether it is an array of `empty` that others of the same memory are views of."""
    return _kept is not None and _kept.owns(array)


def trim() -> None:
    """Give the system back what is not used now; for when much has become free for good."""
    if _kept is not None:
        _kept.trim()


def _begin() -> Kept | None:
    global _kept, _is_refused
    with _lock:
        if _kept is None and not _is_refused:
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            try:
                _kept = Kept(min(memory // _SHARE // ALIGN * ALIGN, _LARGEST))
            except (OSError, ValueError) as e:
                _is_refused = True
                log.info("memory of large arrays is not kept: %s", e)
        return _kept


def _forked() -> None:
    """Begin anew in a child: it has neither the thread that looks after the memory, nor perhaps its locks."""
    global _kept, _lock
    _kept, _lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forked)
