"""What an array held at one moment, to be read while rows of it go on changing.

Nothing is copied for that but pages, just before they are written to for the first time; so a step that touches a
little of a large table is delayed by a little. No lock is held meanwhile: whoever reads looks afterwards whether the
pages it has read were kept by then, and if so takes them from where they are kept.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from dtfctl.runtime.checkpoint.direct import PAGE, whole_pages

_PAGE = np.dtype((np.void, PAGE))
# Rows that are looked up one by one.
_FEW = 32

Array = np.ndarray[Any, Any]


class Shadow:
    """Memory for the pages of one array that were kept; only those take memory, and have it from then on.

    For one snapshot after the other: memory fresh from the system costs several times what copying into it does.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._pages: Array | None = None

    @property
    def pages(self) -> Array:
        if self._pages is None:
            # Pages of 2 MB would take as much for each byte that is touched.
            memory = mmap.mmap(-1, self.size)
            if hasattr(mmap, "MADV_NOHUGEPAGE"):
                memory.madvise(mmap.MADV_NOHUGEPAGE)
            self._pages = np.frombuffer(memory, _PAGE, self.size // PAGE)
        return self._pages


class ArraySnapshot:
    """A contiguous array as it is now, while updates of it call `keep` before they write.

    It holds one reference to the array, however many parts of it are read, until it ends.
    """

    def __init__(self, array: Array, shadow: Shadow | None = None) -> None:
        self.shape, self.dtype, self.size = array.shape, array.dtype, array.nbytes
        self.shadow = shadow if shadow is not None and shadow.size == self.size else Shadow(self.size)
        self._of = id(array)
        whole = self.size // PAGE
        self._bytes: memoryview | None = array.reshape(-1).view(np.uint8).data
        # What is behind the last whole page is kept from the beginning.
        self._tail = np.frombuffer(self._bytes[whole * PAGE :], np.uint8).copy()
        # Of each page, whether it may be written to: it is kept, or was read.
        self._free = np.zeros(whole + 1, bool)
        self._free[whole] = True
        self._flags = self._free.data

    def is_of(self, array: Array) -> bool:
        """Tell whether the array is the one this was taken of; to be asked as long as this has not ended."""
        return id(array) == self._of

    @property
    def is_over(self) -> bool:
        return self._bytes is None

    def keep(self, rows: Array, length: int) -> None:
        """Keep what is about to be written to; called by one thread at a time.

        Args:
            rows: a vector of numbers of parts of the array, all as long, which exist.
            length: of each, in bytes.
        """
        if rows.size <= _FEW and length <= PAGE:
            # Numpy takes ten times as long for a few.
            flags = self._flags
            for row in rows.tolist():
                start = row * length
                if not (flags[start // PAGE] and flags[(start + length - 1) // PAGE]):
                    break
            else:
                return
        starts = rows.astype(np.int64) * length
        first, last = starts // PAGE, (starts + (length - 1)) // PAGE
        if length > PAGE:
            pages = np.unique(first)[:, None] + np.arange(length // PAGE + 2)
            pages = np.minimum(pages, last.max(initial=0)).reshape(-1)
        else:
            pages = np.concatenate((first, last))
        pages = np.unique(pages[~self._free[pages]])
        memory = self._bytes
        if pages.size and memory is not None:
            self.shadow.pages[pages] = np.frombuffer(memory[: self.size // PAGE * PAGE], _PAGE)[pages]
            # Only now: whoever sees this reads there.
            self._free[pages] = True

    def read(self, start: int, stop: int, out: Array) -> None:
        """Copy bytes as they were, once: after that they are not kept any more.

        Args:
            start: a multiple of PAGE; and so is `stop`, but at the end.
            out: as many bytes.
        """
        if self._bytes is None:
            raise ValueError("This snapshot was read to its end")
        np.copyto(out, np.frombuffer(self._bytes[start:stop], np.uint8))
        first, last = start // PAGE, stop // PAGE
        # Only now, as they may have been written to meanwhile. Of a copy: numpy counts first, and leaves out the last
        # ones where there are more by the time it looks.
        chosen = np.flatnonzero(self._free[first:last].copy())
        if chosen.size:
            out[: (last - first) * PAGE].view(_PAGE)[chosen] = self.shadow.pages[first:last][chosen]
        if stop % PAGE:
            out[(last - first) * PAGE :] = self._tail
        self._free[first : whole_pages(stop) // PAGE] = True

    def end(self) -> None:
        """Let go of the array: all of it was read, or nobody will."""
        self._bytes = None
