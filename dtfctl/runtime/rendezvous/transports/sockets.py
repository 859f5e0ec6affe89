"""Frames over a socket: TCP, and unix sockets between tasks of a host. Encrypted ones are sealed.py's.

Whoever sends writes to the socket itself; what the socket does not take is written by the reactor when there is space.
What arrives is read by the reactor's leader, long payloads straight into the array they become. Over a unix socket long
tensors may be left in shared memory instead (memory/link_memory.py), and only say where.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from dtfctl.net import reasons
from dtfctl.net.pings import SILENT_S, Pings
from dtfctl.runtime.framework.errors import (
    InternalError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
    error_from_code,
)
from dtfctl.runtime.memory.borrower import Borrower
from dtfctl.runtime.memory.link_memory import LinkMemory
from dtfctl.runtime.memory.remains import remains_of
from dtfctl.runtime.memory.shared_memory import LEAST, Arena, Loans, Place
from dtfctl.runtime.rendezvous.frames import Frame, FrameReader, FrameWriter, Kind, Message, host_array
from dtfctl.runtime.rendezvous.reactor import REACTOR
from dtfctl.runtime.rendezvous.transports.base import LinkOwner
from dtfctl.runtime.rendezvous.transports.meter import SOCKET_BUFFER, Meter

# Buffers a system call may take (the kernel's IOV_MAX is 1024), and bytes read before others get their turn.
_MOST_BUFFERS = 256
MOST_BYTES = 1 << 23
_NOTED = 1 << 14
_RELEASE, _RETURNED, _PING = Kind.RELEASE, Kind.RETURNED, Kind.PING
_OFFSET = struct.Struct("<Q")


class SocketLink:
    """A Link; `start` it once its owner knows it.

    Attributes:
        meter: of what it sends; None where that does not leave the host.

    Args:
        sock: connected, both ends known to each other; taken over.
        arena: where to put long tensors for the peer; None to send them through the socket.
        mapping_of: the peer's arena: its descriptor and size.
        is_waited_for: for a peer that speaks only when it wants something and listens only while it waits: whether it
            does now.
        name: what both ends know the connection by.
    """

    def __init__(
        self,
        sock: socket.socket,
        peer_task: str,
        local_life: int,
        peer_life: int,
        owner: LinkOwner,
        arena: Arena | None = None,
        mapping_of: tuple[int, int] | None = None,
        is_waited_for: Callable[[], bool] | None = None,
        name: int = 0,
    ) -> None:
        self.peer_task = peer_task
        self.peer_life = peer_life
        self.transport = "shm" if arena is not None else "tcp" if sock.family != socket.AF_UNIX else "unix"
        self.is_encrypted = False
        self.meter = None if sock.family == socket.AF_UNIX else Meter()
        self._sock = sock
        self._owner = owner
        self._is_waited_for = is_waited_for
        borrower = Borrower.of(sock, REACTOR) if arena is not None and arena.is_common else None
        lasts = borrower is not None and mapping_of is not None
        remains = remains_of(owner, peer_task, peer_life) if lasts else None
        self.memory = LinkMemory(arena, mapping_of, borrower, remains, name)
        self._writer = FrameWriter(local_life, peer_life)
        self._reader = FrameReader(peer_life, local_life, self._received, self.memory.mapping, self.memory.loans)
        self._lock = threading.Lock()
        self._backlog: deque[memoryview] = deque()
        self._error: OpError | None = None
        self._fd = sock.fileno()
        self._pings = Pings()
        sock.setblocking(False)
        if sock.family == socket.AF_UNIX:
            for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)
        else:
            # The kernel finds TCP's buffers itself, unless it is told.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def start(self) -> None:
        """Read from now on."""
        REACTOR.add(self)

    def fileno(self) -> int:
        return self._fd

    # Sending ----------------------------------------------------------------------------------------------------------

    def send(self, messages: Sequence[Message]) -> None:
        loans = self.memory.loans
        places = None if loans is None else self._share(messages, loans)
        refused: OpError | None = None
        broken: OpError | None = None
        out: list[bytes | memoryview] = []
        with self._lock:
            if self._error is not None:
                self._unshare(places)
                raise error_from_code(self._error.error_code, self._error.message)
            for i, message in enumerate(messages):
                try:
                    self._writer.write(message, out, None if places is None else places[i])
                except OpError as e:
                    refused = refused or e
            broken = self._put(out)
        if broken is not None:
            self.fail(broken)
            raise broken
        if refused is not None:
            raise refused

    def _share(self, messages: Sequence[Message], loans: Loans) -> list[Place | None] | None:
        """See to it that long tensors are in shared memory; where they are."""
        mapping = self.memory.mapping if loans.arena.is_common else None
        places: list[Place | None] | None = None
        for i, message in enumerate(messages):
            value = message.value
            if getattr(value, "nbytes", 0) >= LEAST and message.kind is Kind.TENSOR and not message.dead:
                array = host_array(value)
                if isinstance(array, np.ndarray) and not array.dtype.hasobject:
                    if places is None:
                        places = [None] * len(messages)
                    # A client gets a copy even of what it has fed: it may write there, and the tensor may live on here.
                    place = None if mapping is None else mapping.find(array)
                    places[i] = place or loans.lend(array)
        return places

    def _unshare(self, places: Sequence[Place | None] | None) -> None:
        """Forget loans of which nobody will be told."""
        for place in places or ():
            if place is not None and not place.is_returned and self.memory.loans is not None:
                self.memory.loans.take_back(place.offset)

    def _put(self, out: list[bytes | memoryview]) -> OpError | None:
        """Write what the socket takes and keep the rest; with the lock held. Why the link is broken, or None."""
        if self.memory.released:
            self._add_released(out)
        if self._backlog:
            self._backlog.extend(map(memoryview, out))
            return None
        try:
            rest = self._write(out)
        except OSError as e:
            return self._broken(e)
        if rest:
            self._backlog.extend(rest)
            REACTOR.watch_for_space(self, True)
        elif self.meter is not None and self.meter.sent:
            self.meter.ended(self._pings.spoke_at, self._sock)
        return None

    def _write(self, out: list[bytes | memoryview]) -> list[memoryview]:
        """Write once or more; what is left."""
        self._pings.spoke_at = time.monotonic()
        if len(out) == 1 or all(b.__class__ is bytes for b in out):
            data = out[0] if len(out) == 1 else b"".join(out)
            try:
                sent = self._sock.send(data)
            except BlockingIOError:
                sent = 0
            self._note_sent(sent, sent == len(data))
            return [] if sent == len(data) else [memoryview(data)[sent:]]
        return self._write_views([memoryview(b) for b in out])

    def _write_views(self, views: list[memoryview]) -> list[memoryview]:
        while views:
            try:
                sent = self._sock.sendmsg(views[:_MOST_BUFFERS])
            except BlockingIOError:
                self._note_sent(0, False)
                break
            self._note_sent(sent, sent == sum(map(len, views[:_MOST_BUFFERS])))
            at = 0
            while at < len(views) and sent >= len(views[at]):
                sent -= len(views[at])
                at += 1
            del views[:at]
            if sent:
                views[0] = views[0][sent:]
                break
        return views

    def _note_sent(self, sent: int, is_all: bool) -> None:
        # Small frames are most of all there are, and say nothing.
        if self.meter is not None and not (is_all and sent < _NOTED):
            self.meter.wrote(sent)
            if not is_all:
                self.meter.full(time.monotonic())

    def writable(self) -> None:
        broken: OpError | None = None
        with self._lock:
            if self._error is not None:
                return
            try:
                self._pings.spoke_at = time.monotonic()
                batch = [self._backlog.popleft() for _ in range(min(len(self._backlog), _MOST_BUFFERS))]
                self._backlog.extendleft(reversed(self._write_views(batch)))
                if not self._backlog:
                    REACTOR.watch_for_space(self, False)
                    if self.meter is not None:
                        self.meter.ended(time.monotonic(), self._sock)
            except OSError as e:
                broken = self._broken(e)
        if broken is not None:
            self.fail(broken)

    # Shared memory ----------------------------------------------------------------------------------------------------

    def _add_released(self, out: list[bytes | memoryview]) -> None:
        offsets = self.memory.take_released()
        self._writer.write(Message(Kind.RELEASE, 0, "", b"".join(map(_OFFSET.pack, offsets))), out)

    def _take_back(self, payload: bytes) -> None:
        if len(payload) % _OFFSET.size:
            raise InvalidArgumentError("A peer gives back memory it was not lent")
        self.memory.take_back(offset for (offset,) in _OFFSET.iter_unpack(payload))

    # Receiving --------------------------------------------------------------------------------------------------------

    def readable(self) -> None:
        try:
            self._read()
        except BlockingIOError:
            return
        except OSError as e:
            self.fail(self._broken(e))
        except OpError as e:
            self.fail(e)
        except Exception as e:
            self.fail(InternalError(f"A frame from {self.peer_task} could not be handled: {type(e).__name__}: {e}"))
        except BaseException:
            # An interrupt came in the middle of a frame.
            self.fail(UnavailableError(f"The connection to {self.peer_task} was interrupted"))
            raise

    def _read(self) -> None:
        self._pings.silent_ticks = 0
        taken = 0
        while taken < MOST_BYTES:
            space = self._reader.space()
            count = self._sock.recv_into(space)
            if not count:
                raise UnavailableError(f"{self.peer_task} {reasons.CLOSED}")
            self._reader.filled(count)
            taken += count
            if count < len(space):
                return

    def _received(self, frame: Frame) -> None:
        kind = frame.kind
        if kind is _RELEASE:
            self._take_back(frame.payload)
        elif kind is _RETURNED:
            self.memory.returned(frame.step)
        elif kind is not _PING:
            self._owner.received(self, frame)

    def tick(self, now: float) -> None:
        is_silent = self._pings.tick(self._fd)
        if self._is_waited_for is not None:
            if self._pings.is_due(now) and self._is_waited_for():
                self._ping()
        elif is_silent:
            self.fail(UnavailableError(f"{self.peer_task} {reasons.silent(SILENT_S)}"))
        elif self._pings.is_due(now) or self.memory.released:
            self._ping()
        for name in self.memory.take_idle():
            # If it fails the link does: then what was lent stays until this process ends.
            with contextlib.suppress(OpError):
                self.send((Message(_RETURNED, name),))

    def _ping(self) -> None:
        with contextlib.suppress(OpError):
            self.send((Message(Kind.PING, 0),))

    # Ending -----------------------------------------------------------------------------------------------------------

    def _broken(self, e: OSError) -> OpError:
        return UnavailableError(f"Connection to {self.peer_task} failed: {reasons.problem(e)}")

    def _close_socket(self) -> None:
        """Close the socket, with the lock held, once the link has failed."""
        self._sock.close()

    def fail(self, error: OpError) -> None:
        """End the link; its owner is told once."""
        with self._lock:
            if self._error is not None:
                return
            self._error = error
            self._backlog.clear()
            REACTOR.remove(self)
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)
            self._close_socket()
        self.memory.end()
        self._owner.ended(self, error)

    def close(self) -> None:
        self.fail(UnavailableError(f"The connection to {self.peer_task} was closed"))
