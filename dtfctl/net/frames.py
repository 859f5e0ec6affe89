"""Turn a byte stream back into frames: the part that both formats of frames have in common.

The launcher's messages (`launcher/rpc/connection.py`) and the runtime's tensors (`runtime/rendezvous/frames.py`) differ
in what a head says. Both have every length checked before there is memory for it, read short frames from one buffer,
several at a time, and long ones straight to the place where they stay.
"""

from __future__ import annotations

from typing import Any


class FrameAssembler:
    """Holds what has come of one direction. Fill `space()` and say with `filled` how much; or `feed` whole chunks.

    A format is a subclass with a `_frame` and a `_finish_long`. What these raise is raised by `filled` and `feed`, and
    the connection must be dropped then.

    Args:
        head_size: bytes of which `_frame` can tell something.
        buffer_size: bytes that are read at once; a head with all that may stand before a payload must fit.
    """

    def __init__(self, head_size: int, buffer_size: int) -> None:
        self._head_size = head_size
        self._buffer = bytearray(buffer_size)
        self._view = memoryview(self._buffer)
        self._end = 0
        # Where the payload of a long frame is read to, one byte an item, and how much of it is there.
        self._place: Any = None
        self._at = 0

    def _frame(self, at: int, end: int) -> int:
        """Take the frame at `at`, if enough of it is there; return how many bytes of the buffer that took, else 0.

        Of a long frame it takes all there are, up to `end`, after `_begin_long`.
        """
        raise NotImplementedError

    def _finish_long(self) -> None:
        """Take the long frame whose payload is at `_place` now, and set that to None."""
        raise NotImplementedError

    def _begin_long(self, place: Any, first: memoryview) -> None:
        """Have the rest of a payload, of which `first` has come, read to `place`."""
        self._at = len(first)
        if self._at:
            place[: self._at] = first
        self._place = place

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing has come of the next frame."""
        return not self._end and self._place is None

    def space(self) -> memoryview:
        """Return where the next bytes go; never empty."""
        if self._place is not None:
            return memoryview(self._place)[self._at :]
        return self._view[self._end :]

    def feed(self, chunk: bytes | memoryview) -> None:
        """Take bytes that are somewhere else."""
        view = memoryview(chunk)
        while len(view):
            space = self.space()
            count = min(len(space), len(view))
            space[:count] = view[:count]
            # A place must not be held when its last owner asks whether it may write there.
            del space
            self.filled(count)
            view = view[count:]

    def filled(self, count: int) -> None:
        """Note that so many bytes of `space()` are there now."""
        if self._place is not None:
            self._at += count
            if self._at == len(self._place):
                self._finish_long()
            return
        end = self._end + count
        at = 0
        while end - at >= self._head_size:
            used = self._frame(at, end)
            if not used:
                break
            at += used
            if self._place is not None:
                self._end = 0
                return
        rest = end - at
        if at and rest:
            self._buffer[:rest] = self._buffer[at:end]
        self._end = rest
