"""Frames in encrypted records (dtfctl/net/records.py) over a TCP socket.

There are two streams of frames, each with records of its own type: short ones, and tensors that are long. Wherever a
record of a long one ends, short ones that wait go first; frames with the same key keep their order. One thread at a
time, the pump, encrypts and writes: whoever sends, for as long as the socket takes what is short, then a thread of
`pumps`. It holds no lock meanwhile, so others queue theirs and go on. A record is decrypted where its bytes are used.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import TypeAlias

import numpy as np

from dtfctl.net import reasons
from dtfctl.net.records import FORKED, HEADER_SIZE, LONG, LONGEST, OVERHEAD, SHORT, RecordError, Records, Ticket
from dtfctl.runtime.framework.errors import InternalError, OpError, UnavailableError, error_from_code
from dtfctl.runtime.rendezvous.frames import BUFFER, FrameReader, FrameWriter, Kind, Message
from dtfctl.runtime.rendezvous.pumps import PUMPS
from dtfctl.runtime.rendezvous.reactor import REACTOR
from dtfctl.runtime.rendezvous.transports.base import LinkOwner
from dtfctl.runtime.rendezvous.transports.sockets import MOST_BYTES, SocketLink

log = logging.getLogger(__name__)
# Of a long tensor in one record. Of 64 KB to 1 MB this moved most: it is still in the core's cache when it is copied to
# the socket, and there are few calls.
CHUNK = 1 << 19
# How much the kernel may hold beyond what is on its way. Without a limit it is up to 4 MB, which take 0.3 s at
# 100 Mbit/s; with less than a record threads wake each other several times for each.
UNSENT = CHUNK
# What a sending thread writes itself before it leaves the rest to the pumps.
INLINE = 1 << 20
# Read when it is not known what comes: as much as all short frames that may be in one record.
_UNKNOWN = BUFFER + OVERHEAD + HEADER_SIZE
_MOST_SHORT = 1 << 16
_TENSOR = Kind.TENSOR
Piece: TypeAlias = tuple[Ticket, bytes | memoryview]


_PLACE = CHUNK + _MOST_SHORT + 4 * OVERHEAD
_SMALL = 1 << 14


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


class _State(Enum):
    IDLE = 0
    PUMPING = 1
    # The socket is full: the reactor says when it is not.
    FULL = 2


# Looking a member up in its enumeration takes as long as much else here.
_IDLE, _PUMPING, _FULL = _State.IDLE, _State.PUMPING, _State.FULL
# So many short frames are written with the link's lock held, like those of links without encryption.
_AT_ONCE = 64


class SealedLink(SocketLink):
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
        super().__init__(sock, peer_task, local_life, peer_life, owner, name=name)
        self.is_encrypted = True
        if sock.family != socket.AF_UNIX:
            # A short frame overtakes nothing that the kernel has.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        self._sealer, self._opener = records.sealer, records.opener
        self._lives = local_life, peer_life
        self._long_writer = FrameWriter(local_life, peer_life)
        self._short: deque[bytes | memoryview] = deque()
        # Pieces of long frames; with the last one of a frame its key, which shorter ones must not overtake.
        self._long: deque[tuple[bytes | memoryview, str | None]] = deque()
        self._long_keys: dict[str, int] = {}
        self._state = _IDLE
        self._sealed = memoryview(b"")
        self._place: bytearray | None = None
        self._long_reader: FrameReader | None = None
        # What was read and not yet decrypted lies between the two.
        self._buffer = memoryview(bytearray(_UNKNOWN))
        self._begin = self._end = 0
        self._is_reading = False
        self._next: Ticket | None = None

    # Sending ----------------------------------------------------------------------------------------------------------

    def send(self, messages: Sequence[Message]) -> None:
        if self._sealer.is_of_a_fork:
            # Nothing is done to the socket, which is the parent's as well.
            raise UnavailableError(f"The connection to {self.peer_task} cannot be used: {FORKED}")
        refused: OpError | None = None
        with self._lock:
            if self._error is not None:
                raise error_from_code(self._error.error_code, self._error.message)
            for message in messages:
                try:
                    self._queue(message)
                except OpError as e:
                    refused = refused or e
            is_mine = self._state is _IDLE
            broken = None
            if is_mine:
                if self._long or len(self._short) > _AT_ONCE:
                    self._state = _PUMPING
                else:
                    is_mine = False
                    broken = self._write_short()
        if is_mine:
            broken = self._pump(INLINE)
        elif broken is not None:
            self.fail(broken)
        if broken is not None:
            raise broken
        if refused is not None:
            raise refused

    def _write_short(self) -> OpError | None:
        """Encrypt and write a few short frames; with the lock held. Why the link has failed, or None."""
        try:
            while self._short:
                self._sealed = memoryview(self._sealer.seal(SHORT, self._next_short()))
                if not self._write_sealed():
                    self._state = _FULL
                    REACTOR.watch_for_space(self, True)
                    return None
        except OSError as e:
            return self._broken(e)
        except RecordError as e:
            return UnavailableError(f"Connection to {self.peer_task} failed: {e}")
        return None

    def _queue(self, message: Message) -> None:
        """Put a frame into its queue, with the lock held.

        Raises:
            InvalidArgumentError: the message cannot be sent; nothing of it was queued.
        """
        out: list[bytes | memoryview] = []
        key = message.key
        if message.kind is _TENSOR and (key in self._long_keys or _is_long(message)):
            self._long_writer.write(message, out)
            self._long_keys[key] = self._long_keys.get(key, 0) + 1
            last = out.pop()
            self._long.extend((piece, None) for piece in out)
            self._long.append((last, key))
        else:
            self._writer.write(message, out)
            self._short.extend(out)

    def _pump(self, budget: int) -> OpError | None:
        """Encrypt and write until nothing is left or the socket is full; the state is PUMPING, and this thread's.

        Args:
            budget: bytes after which a thread of the pumps goes on.

        Returns: why the link has failed.
        """
        try:
            return self._pump_on(budget)
        except OSError as e:
            return self._stop(self._broken(e))
        except RecordError as e:
            return self._stop(UnavailableError(f"Connection to {self.peer_task} failed: {e}"))
        except Exception as e:
            return self._stop(InternalError(f"Sending to {self.peer_task} failed: {type(e).__name__}: {e}"))
        except BaseException:
            self._stop(UnavailableError(f"The connection to {self.peer_task} was interrupted"))
            raise

    def _pump_on(self, budget: int) -> OpError | None:
        error: OpError | None = None
        while self._write_sealed():
            with self._lock:
                error = self._error
                if error is not None:
                    break
                if budget <= 0 and self._long:
                    PUMPS.submit(self._pump_in_thread)
                    return None
                batch = self._next_batch()
                if not batch:
                    self._state = _IDLE
                    if self.meter is not None:
                        self.meter.ended(time.monotonic(), self._sock)
                    place, self._place = self._place, None
                    _PLACES.give(place)
                    return None
            budget -= self._seal(batch)
        with self._lock:
            error = self._error
            if error is None:
                self._state = _FULL
                REACTOR.watch_for_space(self, True)
                return None
        # Its owner is told; that what was written got nowhere is no more of an error here than a moment later.
        self._stop(error)
        return None

    def _pump_in_thread(self) -> None:
        self._pump(1 << 62)

    def _write_sealed(self) -> bool:
        """Write what is encrypted; False when the socket does not take all of it."""
        if not self._sealed:
            return True
        self._pings.spoke_at = time.monotonic()
        try:
            sent = self._sock.send(self._sealed)
        except BlockingIOError:
            sent = 0
        self._note_sent(sent, sent == len(self._sealed))
        self._sealed = self._sealed[sent:]
        return not self._sealed

    def _next_short(self) -> bytes | memoryview:
        """Return what the next record of short frames holds; with the lock held, and if there are any."""
        short = self._short
        first = short.popleft()
        size = len(first)
        if short and size <= _MOST_SHORT:
            parts = [first]
            while short and size + len(short[0]) <= _MOST_SHORT:
                parts.append(short.popleft())
                size += len(parts[-1])
            return b"".join(parts)
        if size > LONGEST:
            view = memoryview(first)
            short.appendleft(view[LONGEST:])
            return view[:LONGEST]
        return first

    def _next_batch(self) -> list[Piece]:
        """Return what goes next, with the numbers of its records; with the lock held."""
        batch: list[Piece] = []
        size = 0
        if self._short:
            data = self._next_short()
            size = len(data)
            batch.append((self._sealer.take(SHORT, size), data))
        while self._long and size < CHUNK:
            piece, key = self._long.popleft()
            if len(piece) > CHUNK:
                view = memoryview(piece)
                self._long.appendleft((view[CHUNK:], key))
                piece = view[:CHUNK]
            elif key is not None:
                self._forget_key(key)
            size += len(piece)
            batch.append((self._sealer.take(LONG, len(piece)), piece))
        return batch

    def _forget_key(self, key: str) -> None:
        left = self._long_keys.pop(key) - 1
        if left:
            self._long_keys[key] = left

    def _seal(self, batch: list[Piece]) -> int:
        """Encrypt what goes next; how long that is."""
        size = sum(ticket.size + OVERHEAD for ticket, _ in batch)
        if size <= _SMALL:
            place = memoryview(bytearray(size))
        else:
            if self._place is None or len(self._place) < size:
                _PLACES.give(self._place)
                self._place = _PLACES.take(size)
            place = memoryview(self._place)
        at = 0
        for ticket, data in batch:
            at += ticket.seal_into(data, place[at:])
        # Who asks later whether a tensor is still held must not find it here.
        batch.clear()
        self._sealed = place[:at]
        return at

    def writable(self) -> None:
        with self._lock:
            if self._state is not _FULL or self._error is not None:
                return
            self._state = _PUMPING
            REACTOR.watch_for_space(self, False)
            is_long = bool(self._long)
        if is_long:
            PUMPS.submit(self._pump_in_thread)
        else:
            self._pump(INLINE)

    # Receiving --------------------------------------------------------------------------------------------------------

    def readable(self) -> None:
        # In this order: who ends the link sets the error first and looks then, and leaves closing to the second of us.
        self._is_reading = True
        try:
            if self._error is None:
                super().readable()
        finally:
            self._is_reading = False
            if self._error is not None:
                with self._lock:
                    self._close_socket()

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
        if ticket.kind == SHORT:
            reader = self._reader
        elif ticket.kind == LONG:
            if self._long_reader is None:
                local, peer = self._lives
                self._long_reader = FrameReader(peer, local, self._received)
            reader = self._long_reader
        else:
            raise self._opener.spoil("An encrypted record of a type came that has no place here")
        space = reader.space()
        if ticket.size <= len(space):
            ticket.open_into(sealed, space[: ticket.size])
            # What was read there must not be held when its last owner asks whether it may write to it.
            del space
            reader.filled(ticket.size)
        else:
            del space
            reader.feed(ticket.open(sealed))

    # Ending -----------------------------------------------------------------------------------------------------------

    def _stop(self, error: OpError) -> OpError:
        """Give up: the pump has failed."""
        with self._lock:
            self._state = _IDLE
            if self._error is not None:
                self._close_socket()
        self.fail(error)
        return error

    def _close_socket(self) -> None:
        # Its descriptor's number may be another's as soon as it is closed, so nobody may be reading or writing.
        self._short.clear()
        self._long.clear()
        self._long_keys.clear()
        if self._state is not _PUMPING and not self._is_reading:
            with contextlib.suppress(OSError):
                self._sock.close()


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
