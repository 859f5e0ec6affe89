"""Lanes of frames on one way to a peer: short frames, long tensors in pieces, and those that only the next step needs.

Wherever a piece of a long one ends, short ones that wait go first, and what this step needs goes before what the next
one does. Frames with the same key keep their order: what has the key of a long tensor that waits goes behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.structural_ops import AHEAD_NAME
from dtfctl.runtime.rendezvous.frames import BUFFER, Frame, FrameReader, FrameWriter, Kind, Message

SHORT, LONG, AHEAD = 2, 3, 4
"""How a lane is named where bytes of both pass; encrypted records have these types."""
# Of a long tensor in one piece. Of 64 KB to 1 MB this moved most: it is still in the core's cache when it is copied to
# the socket, and there are few calls.
CHUNK = 1 << 19
MOST_SHORT = BUFFER + (1 << 13)
"""How many bytes of short frames pass together, at most, but for a single one that is longer. The longest payload that
is short passes with what stands before it: apart, whoever waits for it would wake twice."""
_TENSOR = Kind.TENSOR
# In a rendezvous key.
_AHEAD = f";{AHEAD_NAME}"


class Lanes:
    """What waits to be sent; all methods are called with the link's lock held.

    Args:
        short_writer, long_writer, ahead_writer: of each lane's frames.
    """

    __slots__ = ("_ahead", "_ahead_writer", "_keys", "_long", "_long_writer", "_short_writer", "short")

    def __init__(self, short_writer: FrameWriter, long_writer: FrameWriter, ahead_writer: FrameWriter) -> None:
        self._short_writer, self._long_writer, self._ahead_writer = short_writer, long_writer, ahead_writer
        self.short: deque[bytes | memoryview] = deque()
        # With the last piece of a frame its key, which shorter ones must not overtake.
        self._long: deque[tuple[bytes | memoryview, str | None]] = deque()
        self._ahead: deque[tuple[bytes | memoryview, str | None]] = deque()
        self._keys: dict[str, int] = {}

    def put(self, message: Message) -> None:
        """Put a frame into its lane.

        Raises:
            InvalidArgumentError: the message cannot be sent; nothing of it was put anywhere.
        """
        out: list[bytes | memoryview] = []
        key = message.key
        if message.kind is _TENSOR and (key in self._keys or _is_long(message)):
            is_ahead = _AHEAD in key
            lane, writer = (self._ahead, self._ahead_writer) if is_ahead else (self._long, self._long_writer)
            writer.write(message, out)
            self._keys[key] = self._keys.get(key, 0) + 1
            last = out.pop()
            lane.extend((piece, None) for piece in out)
            lane.append((last, key))
        else:
            self._short_writer.write(message, out)
            self.short.extend(out)

    def next_short(self) -> list[bytes | memoryview]:
        """Take short frames that go together, if there are any."""
        short = self.short
        parts = [short.popleft()]
        size = len(parts[0])
        while short and size + len(short[0]) <= MOST_SHORT:
            parts.append(short.popleft())
            size += len(parts[-1])
        return parts

    @property
    def has_long(self) -> bool:
        """Tell whether a piece of a long frame waits."""
        return bool(self._long or self._ahead)

    def next_long(self, most: int, size: int = 0) -> tuple[int, list[bytes | memoryview]]:
        """Take pieces of long frames, if there are any: of one lane, which is returned with them.

        Args:
            most, size: so many bytes are wanted, and taken already; pieces have at most `CHUNK`.
        """
        number, lane = (LONG, self._long) if self._long else (AHEAD, self._ahead)
        parts: list[bytes | memoryview] = []
        while lane and (not parts or size < most):
            parts.append(self._next_piece(lane))
            size += len(parts[-1])
        return number, parts

    def _next_piece(self, lane: deque[tuple[bytes | memoryview, str | None]]) -> bytes | memoryview:
        piece, key = lane.popleft()
        if len(piece) > CHUNK:
            view = memoryview(piece)
            lane.appendleft((view[CHUNK:], key))
            return view[:CHUNK]
        if key is not None:
            left = self._keys.pop(key) - 1
            if left:
                self._keys[key] = left
        return piece

    def clear(self) -> None:
        """Forget all that waits."""
        self.short.clear()
        self._long.clear()
        self._ahead.clear()
        self._keys.clear()


class LaneReaders:
    """The readers of what comes in all lanes.

    Args:
        short: of short frames.
        sender, receiver: the lives that frames must be from and for.
        received: called with each long frame.
    """

    __slots__ = ("_lives", "_others", "_received", "_short")

    def __init__(self, short: FrameReader, sender: int, receiver: int, received: Callable[[Frame], None]) -> None:
        self._short = short
        self._lives = sender, receiver
        self._received = received
        self._others: dict[int, FrameReader] = {}

    def of(self, lane: int) -> FrameReader:
        """Find a lane's reader.

        Raises:
            InvalidArgumentError: there is no such lane.
        """
        if lane == SHORT:
            return self._short
        found = self._others.get(lane)
        if found is None:
            if lane not in (LONG, AHEAD):
                raise InvalidArgumentError(f"Not a tensor stream of this version: bytes of a lane {lane}")
            found = self._others[lane] = FrameReader(*self._lives, self._received)
        return found


def _is_long(message: Message) -> bool:
    value = message.value
    if message.dead or value is None:
        return False
    if getattr(value, "nbytes", 0) > BUFFER:
        return True
    dtype = getattr(value, "dtype", None)
    if dtype is None or not dtype.hasobject:
        return False
    return sum(len(item) for item in np.asarray(value).flat if isinstance(item, (bytes, str))) > BUFFER
