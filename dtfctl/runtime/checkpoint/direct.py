"""Writing a file past the system's page cache.

What is written the usual way is first copied into memory of the system, which it may have to clear or to get from a
virtual machine's host, and later written out by threads of its own: processor time, memory and memory bandwidth that
are taken from whatever computes meanwhile. Here the disk reads it from where it is.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from typing import Any

import numpy as np

PAGE = 4096
# Absent where there is no such thing.
_DIRECT: int = getattr(os, "O_DIRECT", 0)

Array = np.ndarray[Any, Any]


def whole_pages(size: int) -> int:
    """Return the least number of bytes from there on that is one of whole pages."""
    return -(-size // PAGE) * PAGE


def buffer(size: int) -> Array:
    """Memory that can be written from."""
    return np.frombuffer(mmap.mmap(-1, size), np.uint8)


class DirectFile:
    """A way into an existing file, beside others, which must stay away from the pages that are written here.

    File systems that cannot do it, such as those in memory, get what is written the usual way.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str) -> None:
        try:
            self._handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | _DIRECT)
        except OSError as e:
            if e.errno != errno.EINVAL:
                raise
            self._handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)

    def write(self, pages: Array, offset: int) -> None:
        """Write whole pages.

        Args:
            pages: from `buffer`.
            offset: of whole pages, too.

        Raises:
            OSError: the disk is full, or fails.
        """
        view = pages.data
        done = 0
        while done < len(view):
            try:
                done += os.pwrite(self._handle, view[done:], offset + done)
            except OSError as e:
                if e.errno != errno.EINVAL or not self._is_direct():
                    raise
                # Blocks larger than pages, or a disk that was full in the middle of one.
                fcntl.fcntl(self._handle, fcntl.F_SETFL, 0)

    def _is_direct(self) -> bool:
        return bool(fcntl.fcntl(self._handle, fcntl.F_GETFL) & _DIRECT)

    def close(self) -> None:
        os.close(self._handle)
