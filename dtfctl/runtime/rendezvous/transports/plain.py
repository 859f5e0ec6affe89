"""Frames of two lanes over a TCP socket as they are: for networks that nobody else is on.

Before bytes of a lane stands a head of 8 bytes: which lane, and how many. Long tensors are read straight to where they
stay, and the head behind them by the same call.
"""

from __future__ import annotations

import socket
import struct

from dtfctl.net import reasons
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnavailableError
from dtfctl.runtime.rendezvous.frames import FrameReader
from dtfctl.runtime.rendezvous.transports.base import LinkOwner
from dtfctl.runtime.rendezvous.transports.lane_link import LaneLink, Piece
from dtfctl.runtime.rendezvous.transports.lanes import CHUNK, SHORT
from dtfctl.runtime.rendezvous.transports.sockets import MOST_BYTES

# What tells it from other streams, the lane, how many bytes of it follow.
HEAD = struct.Struct("<HHI")
_MARK = 0xD7F4
# Less is copied behind its head rather than written from two places.
_SMALL = 1 << 14
# Read when it is not known what comes. Of a longer frame the rest is read to where it is needed, instead of copied.
_AHEAD = 1 << 13
# Where a link carries so many bytes a second, or it is not known yet, so much is given to the kernel at once: it makes
# transfers of 1 MB a fifth faster, and nothing waits for it for long.
_FAST, _AT_ONCE = 2e8, 1 << 20


class PlainLink(LaneLink):
    """A Link over a socket, without encryption; see SocketLink."""

    computes = False

    def __init__(
        self, sock: socket.socket, peer_task: str, local_life: int, peer_life: int, owner: LinkOwner, name: int = 0
    ) -> None:
        super().__init__(sock, peer_task, local_life, peer_life, owner, name)
        # What came when it was not known what would: heads, and short frames. So much of it is there.
        self._buffer = memoryview(bytearray(_AHEAD))
        self._there = 0
        # Whose bytes come next, and how many.
        self._lane = self._reader
        self._left = 0

    def _most(self) -> int:
        rate = 0.0 if self.meter is None else self.meter.bytes_s
        return CHUNK if 0 < rate < _FAST else _AT_ONCE

    def _load(self, pieces: list[Piece]) -> int:
        out: list[bytes | memoryview] = []
        total = 0
        for lane, parts in pieces:
            size = sum(map(len, parts))
            out.append(HEAD.pack(_MARK, lane, size))
            out += parts
            total += HEAD.size + size
        self._unsent = [memoryview(b"".join(out))] if total <= _SMALL else [memoryview(data) for data in out]
        return total

    def _read(self) -> None:
        self._pings.silent_ticks = 0
        taken = 0
        while taken < MOST_BYTES:
            count, wanted = self._read_lane() if self._left else self._read_any()
            taken += count
            if count < wanted:
                return

    def _read_any(self) -> tuple[int, int]:
        """Read when it is not known what comes: how many bytes came, and could have."""
        space = self._buffer[self._there :]
        count = self._checked(self._sock.recv_into(space))
        self._there += count
        self._hand_on()
        return count, len(space)

    def _read_lane(self) -> tuple[int, int]:
        """Read bytes of the lane whose head has come, and the head behind them: how many bytes came, and could have."""
        space = self._lane.space()
        wanted = min(len(space), self._left)
        if wanted < self._left:
            count = self._checked(self._sock.recv_into(space))
        else:
            space = space[:wanted]
            wanted += HEAD.size
            count = self._checked(self._sock.recvmsg_into([space, self._buffer[: HEAD.size]])[0])
        here = min(count, len(space))
        # What was read there must not be held when its last owner asks whether it may write to it.
        del space
        self._left -= here
        self._there = count - here
        self._lane.filled(here)
        if self._there:
            self._hand_on()
        return count, wanted

    def _checked(self, count: int) -> int:
        if not count:
            raise UnavailableError(f"{self.peer_task} {reasons.CLOSED}")
        return count

    def _hand_on(self) -> None:
        """Hand what is in the buffer on to whom the heads say."""
        buffer, end, at = self._buffer, self._there, 0
        while end - at >= HEAD.size:
            self._lane, size = self._begun(*HEAD.unpack_from(buffer, at))
            at += HEAD.size
            here = min(size, end - at)
            if here:
                self._lane.feed(buffer[at : at + here])
                at += here
            self._left = size - here
        rest = end - at
        if rest and at:
            buffer[:rest] = buffer[at:end]
        self._there = rest

    def _begun(self, mark: int, lane: int, size: int) -> tuple[FrameReader, int]:
        if mark != _MARK or not size:
            raise InvalidArgumentError("Not a tensor stream of this version: wrong first bytes of a piece")
        return self._reader if lane == SHORT else self._readers.of(lane), size
