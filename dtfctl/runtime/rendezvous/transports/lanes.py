"""Lanes of frames on one way to a peer: one of short frames, and some of long tensors, by when these are needed.

Wherever a piece of a long one ends, short ones that wait go first, then what this step needs in the order in which it
does, then what the next one needs (framework/transfer_names.py). Lanes have numbers where bytes of all pass; encrypted
records have these as types. Frames with the same key keep their order: what has the key of a long tensor that waits
goes behind it.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.transfer_names import URGENCIES, lane_of
from dtfctl.runtime.rendezvous.frames import BUFFER, Frame, FrameReader, FrameWriter, Kind, Message

SHORT, LONG = 2, 3
"""The lane of short frames, and the first of long ones."""
LANES = 2 * URGENCIES
# Of a long tensor in one piece. Of 64 KB to 1 MB this moved most: it is still in the core's cache when it is copied to
# the socket, and there are few calls.
CHUNK = 1 << 19
MOST_SHORT = BUFFER + (1 << 13)
"""How many bytes of short frames pass together, at most, but for a single one that is longer. The longest payload that
is short passes with what stands before it: apart, whoever waits for it would wake twice."""
_TENSOR = Kind.TENSOR
# There are several lanes of long frames, and of what is in them hardly anything but heads passes through a buffer.
_LONG_BUFFER = 1 << 11


class Lanes:
    """What waits to be sent; all methods are called with the link's lock held.

    Args:
        short_writer: of short frames.
        new_writer: makes one for a lane of long ones.
    """

    __slots__ = ("_keys", "_long", "_new_writer", "_short_writer", "_waiting", "_writers", "short")

    def __init__(self, short_writer: FrameWriter, new_writer: Callable[[], FrameWriter]) -> None:
        self._short_writer, self._new_writer = short_writer, new_writer
        self.short: deque[bytes | memoryview] = deque()
        # With the last piece of a frame its key, which shorter ones must not overtake. By lane, made when first needed;
        # and the numbers of those in which something waits, in order.
        self._long: dict[int, deque[tuple[bytes | memoryview, str | None]]] = {}
        self._writers: dict[int, FrameWriter] = {}
        self._waiting: list[int] = []
        self._keys: dict[str, int] = {}

    def put(self, message: Message) -> None:
        """Put a frame into its lane.

        Raises:
            InvalidArgumentError: the message cannot be sent; nothing of it was put anywhere.
        """
        out: list[bytes | memoryview] = []
        key = message.key
        if message.kind is _TENSOR and (key in self._keys or _is_long(message)):
            number = LONG + (message.urgency or lane_of(key))
            lane = self._long.get(number)
            if lane is None:
                lane = self._long[number] = deque()
                self._writers[number] = self._new_writer()
            self._writers[number].write(message, out)
            self._keys[key] = self._keys.get(key, 0) + 1
            if not lane:
                insort(self._waiting, number)
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
        return bool(self._waiting)

    def next_long(self, most: int, size: int = 0) -> tuple[int, list[bytes | memoryview]]:
        """Take pieces of long frames, if there are any: of the first lane, whose number is returned with them.

        Args:
            most, size: so many bytes are wanted, and taken already; pieces have at most `CHUNK`.
        """
        number = self._waiting[0]
        lane = self._long[number]
        parts: list[bytes | memoryview] = []
        while lane and (not parts or size < most):
            parts.append(self._next_piece(lane))
            size += len(parts[-1])
        if not lane:
            del self._waiting[0]
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
        for lane in self._long.values():
            lane.clear()
        self._waiting.clear()
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
            if not LONG <= lane < LONG + LANES:
                raise InvalidArgumentError(f"Not a tensor stream of this version: bytes of a lane {lane}")
            found = self._others[lane] = FrameReader(*self._lives, self._received, buffer=_LONG_BUFFER)
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
