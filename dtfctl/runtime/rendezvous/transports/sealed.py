"""Frames of two lanes in encrypted records (dtfctl/net/records.py) over a TCP socket.

Each lane has records of its own type, and each piece is one. Records are made without a lock, by whichever thread is
the pump, and one is decrypted where its bytes are used.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Sequence

from dtfctl.net import reasons
from dtfctl.net.records import CONFIRM, FORKED, HEADER_SIZE, LONGEST, OVERHEAD, RecordError, Records, Ticket
from dtfctl.runtime.framework.errors import UnavailableError
from dtfctl.runtime.rendezvous.frames import Message
from dtfctl.runtime.rendezvous.transports.base import LinkOwner
from dtfctl.runtime.rendezvous.transports.lane_link import LaneLink, Piece
from dtfctl.runtime.rendezvous.transports.lanes import CHUNK, MOST_SHORT, SHORT
from dtfctl.runtime.rendezvous.transports.sockets import MOST_BYTES

log = logging.getLogger(__name__)
# Read when it is not known what comes: as much as all short frames that may be in one record.
_UNKNOWN = MOST_SHORT + OVERHEAD + HEADER_SIZE
_PLACE = CHUNK + MOST_SHORT + 4 * OVERHEAD


class _Places:
    """Memory to encrypt into, kept for the next one, as the system takes a while to find it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._free: list[bytearray] = []

    def take(self, size: int) -> bytearray:
        if size <= _PLACE:
            with self._lock:
                if self._free:
                    return self._free.pop()
        return bytearray(max(size, _PLACE))

    def give(self, place: bytearray | None) -> None:
        if place is not None and len(place) == _PLACE:
            with self._lock:
                if len(self._free) < self._most:
                    self._free.append(place)


_PLACES = _Places(8)


class SealedLink(LaneLink):
    """A Link over a socket whose ends have the same keys; see SocketLink."""

    def __init__(
        self,
        sock: socket.socket,
        records: Records,
        peer_task: str,
        local_life: int,
        peer_life: int,
        owner: LinkOwner,
        name: int = 0,
    ) -> None:
        super().__init__(sock, peer_task, local_life, peer_life, owner, name)
        self.is_encrypted = True
        self._sealer, self._opener = records.sealer, records.opener
        self._place: bytearray | None = None
        # What was read and not yet decrypted lies between the two.
        self._buffer = memoryview(bytearray(_UNKNOWN))
        self._begin = self._end = 0
        self._next: Ticket | None = None

    # Sending ----------------------------------------------------------------------------------------------------------

    def send(self, messages: Sequence[Message]) -> None:
        if self._sealer.is_of_a_fork:
            # Nothing is done to the socket, which is the parent's as well.
            raise UnavailableError(f"The connection to {self.peer_task} cannot be used: {FORKED}")
        super().send(messages)

    def _load(self, pieces: list[Piece]) -> int:
        try:
            if len(pieces) == 1 and pieces[0][0] == SHORT:
                sealed = b"".join(self._sealer.seal(SHORT, data) for data in _records(pieces[0][1]))
                self._unsent = [memoryview(sealed)]
                return len(sealed)
            tickets = [
                (self._sealer.take(lane, len(data)), data)
                for lane, parts in pieces
                for data in (_records(parts) if lane == SHORT else parts)
            ]
            size = sum(ticket.size + OVERHEAD for ticket, _ in tickets)
            if self._place is None or len(self._place) < size:
                _PLACES.give(self._place)
                self._place = _PLACES.take(size)
            place = memoryview(self._place)
            at = 0
            for ticket, data in tickets:
                at += ticket.seal_into(data, place[at:])
        except RecordError as e:
            raise UnavailableError(f"Connection to {self.peer_task} failed: {e}") from None
        self._unsent = [place[:at]]
        return at

    def _unload(self) -> None:
        place, self._place = self._place, None
        _PLACES.give(place)

    # Receiving --------------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        self._pings.silent_ticks = 0
        taken = 0
        while taken < MOST_BYTES:
            space = self._space()
            count = self._sock.recv_into(space)
            if not count:
                if self._end > self._begin:
                    raise UnavailableError(f"The connection to {self.peer_task} was cut inside an encrypted record")
                raise UnavailableError(f"{self.peer_task} {reasons.CLOSED}")
            self._end += count
            taken += count
            try:
                self._open()
            except RecordError as e:
                log.warning("the connection to %s ends: %s", self.peer_task, e)
                raise UnavailableError(f"The connection to {self.peer_task} ends: {e}") from None
            if count < len(space):
                return

    def _space(self) -> memoryview:
        """Return where what comes next is read to: the rest of a record and the header of the one behind it, if known;
        else not so much that a long record that begins there would have to be moved."""
        ticket, begin = self._next, self._begin
        wanted = _UNKNOWN if ticket is None else max(OVERHEAD + ticket.size + HEADER_SIZE, _UNKNOWN)
        if begin and begin + wanted > len(self._buffer):
            rest = self._end - begin
            self._buffer[:rest] = self._buffer[begin : self._end]
            begin, self._begin, self._end = 0, 0, rest
        if wanted > len(self._buffer):
            larger = memoryview(bytearray(max(wanted, CHUNK + OVERHEAD + HEADER_SIZE) + _UNKNOWN))
            larger[: self._end] = self._buffer[: self._end]
            self._buffer = larger
        return self._buffer[self._end : begin + wanted]

    def _open(self) -> None:
        """Decrypt the records that are there and hand on what is in them."""
        at = self._begin
        while True:
            ticket = self._next
            if ticket is None:
                if self._end - at < HEADER_SIZE:
                    break
                ticket = self._next = self._opener.take(self._buffer, at)
            end = at + OVERHEAD + ticket.size
            if end > self._end:
                break
            self._next = None
            self._take(ticket, self._buffer[at + HEADER_SIZE : end])
            self._begin = at = end
        if at == self._end:
            self._begin = self._end = 0

    def _take(self, ticket: Ticket, sealed: memoryview) -> None:
        if ticket.kind == CONFIRM:
            raise self._opener.spoil("An encrypted record of a type came that has no place here")
        reader = self._readers.of(ticket.kind)
        space = reader.space()
        if ticket.size <= len(space):
            ticket.open_into(sealed, space[: ticket.size])
            # What was read there must not be held when its last owner asks whether it may write to it.
            del space
            reader.filled(ticket.size)
        else:
            del space
            reader.feed(ticket.open(sealed))


def _records(parts: list[bytes | memoryview]) -> list[bytes | memoryview]:
    """Make of short frames that go together what each record holds."""
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return [data] if len(data) <= LONGEST else [data[at : at + LONGEST] for at in range(0, len(data), LONGEST)]
