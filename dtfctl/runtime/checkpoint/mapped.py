"""Tensors that are still a checkpoint's file, and getting them into memory of their own.

A restore gives large tensors as they stand in the file, checked but not copied, so that training goes on at once. A
file that somebody rewrites in place would show in them, and the first update would have to copy; so a thread of the
lowest priority copies them soon afterwards.
"""

from __future__ import annotations

import functools
import logging
import mmap
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from dtfctl.runtime.memory.region import Memory

log = logging.getLogger(__name__)


def is_mapped(value: Any) -> bool:
    """Tell whether an array is part of a file, or lies in memory another task keeps for it."""
    base = getattr(value, "base", None)
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap) and not isinstance(base, Memory)


def copy_soon(value: Any, memory: Callable[[Any], Any], keep: Callable[[Any], None]) -> Future[None]:
    """Have `keep` called with a copy of the array, in another thread, when there is time.

    Args:
        memory: gives an array like it to copy into, or None where no copy is wanted any more.
    """

    def work() -> None:
        try:
            copy = memory(value)
        except MemoryError:
            log.warning("No memory for a restored tensor of %d bytes: it stays in its file", value.nbytes)
            return
        if copy is not None:
            np.copyto(copy, value)
            keep(copy)

    return _thread().submit(work)


@functools.cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "restored", _yield_to_others)


def _yield_to_others() -> None:
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
