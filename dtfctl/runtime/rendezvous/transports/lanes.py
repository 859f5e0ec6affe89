"""Two lanes of frames on one way to a peer: short frames, and long tensors in pieces.

Wherever a piece of a long one ends, short ones that wait go first. Frames with the same key keep their order: what has
the key of a long tensor that waits goes behind it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.rendezvous.frames import BUFFER, Frame, FrameReader, FrameWriter, Kind, Message

SHORT, LONG = 2, 3
"""How a lane is named where bytes of both pass; encrypted records have these types."""
# Of a long tensor in one piece. Of 64 KB to 1 MB this moved most: it is still in the core's cache when it is copied to
# the socket, and there are few calls.
CHUNK = 1 << 19
MOST_SHORT = BUFFER + (1 << 13)
"""How many bytes of short frames pass together, at most, but for a single one that is longer. The longest payload that
is short passes with what stands before it: apart, whoever waits for it would wake twice."""
_TENSOR = Kind.TENSOR


class Lanes:
    """What waits to be sent; all methods are called with the link's lock held.

    Args:
        short_writer, long_writer: of each lane's frames.
    """

    __slots__ = ("_keys", "_long_writer", "_short_writer", "long", "short")

    def __init__(self, short_writer: FrameWriter, long_writer: FrameWriter) -> None:
        self._short_writer, self._long_writer = short_writer, long_writer
        self.short: deque[bytes | memoryview] = deque()
        # With the last piece of a frame its key, which shorter ones must not overtake.
        self.long: deque[tuple[bytes | memoryview, str | None]] = deque()
        self._keys: dict[str, int] = {}

    def put(self, message: Message) -> None:
        """Put a frame into its lane.

        Raises:
            InvalidArgumentError: the message cannot be sent; nothing of it was put anywhere.
        """
        out: list[bytes | memoryview] = []
        key = message.key
        if message.kind is _TENSOR and (key in self._keys or _is_long(message)):
            self._long_writer.write(message, out)
            self._keys[key] = self._keys.get(key, 0) + 1
            last = out.pop()
            self.long.extend((piece, None) for piece in out)
            self.long.append((last, key))
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

    def next_long(self) -> bytes | memoryview:
        """Take a piece of a long frame, if there is one: at most `CHUNK` bytes."""
        piece, key = self.long.popleft()
        if len(piece) > CHUNK:
            view = memoryview(piece)
            self.long.appendleft((view[CHUNK:], key))
            return view[:CHUNK]
        if key is not None:
            left = self._keys.pop(key) - 1
            if left:
                self._keys[key] = left
        return piece

    def clear(self) -> None:
        """Forget all that waits."""
        self.short.clear()
        self.long.clear()
        self._keys.clear()


class LaneReaders:
    """The readers of what comes in both lanes.

    Args:
        short: of short frames.
        sender, receiver: the lives that frames must be from and for.
        received: called with each long frame.
    """

    __slots__ = ("_lives", "_long", "_received", "_short")

    def __init__(self, short: FrameReader, sender: int, receiver: int, received: Callable[[Frame], None]) -> None:
        self._short = short
        self._lives = sender, receiver
        self._received = received
        self._long: FrameReader | None = None

    def of(self, lane: int) -> FrameReader:
        """Find a lane's reader.

        Raises:
            InvalidArgumentError: there is no such lane.
        """
        if lane == SHORT:
            return self._short
        if lane != LONG:
            raise InvalidArgumentError(f"Not a tensor stream of this version: bytes of a lane {lane}")
        if self._long is None:
            self._long = FrameReader(*self._lives, self._received)
        return self._long


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
