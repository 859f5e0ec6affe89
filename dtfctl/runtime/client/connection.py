"""A client's connection to a task of its host: frames over a unix socket, long tensors in shared memory."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import Any

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.memory.borrowed import Mapping
from dtfctl.runtime.memory.shared_memory import LEAST, Loans, Place
from dtfctl.runtime.rendezvous.frames import Frame, FrameReader, FrameWriter, Kind, Message, host_array
from dtfctl.runtime.rendezvous.transports.handshake import Offer, connect_unix

_OFFSET = struct.Struct("<Q")
# A task that lives says so while it runs something for a client.
SILENCE_S = 20


class Connection:
    """One socket, used by one thread at a time.

    Args:
        offer: what the task has said of how to connect.
        life: the client's, as it told the task.
        task: who is at the other end; "" for the master.
        received: called, in `receive`, with every frame that is not the connection's own affair.

    Raises:
        OSError, OpError: it cannot be made.

    Attributes:
        incarnation: the task's life.
        known: numbers that the task knows the meaning of.
        is_spoilt: something was not sent as a whole.
    """

    def __init__(
        self,
        offer: worker_pb2.OpenLinkResponse,
        life: int,
        task: str,
        received: Callable[[Connection, Frame], None],
    ) -> None:
        joined = connect_unix(Offer(offer.place, offer.unix_name, 0, offer.ticket, offer.secret, False))
        self.task = task
        self.incarnation = offer.incarnation
        self.known: set[int] = set()
        self.is_spoilt = False
        self._sock = joined.sock
        self._sock.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self._sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", SILENCE_S, 0))
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, option, 1 << 22)
        self._loans = None if joined.arena is None else Loans(joined.arena)
        self._released: deque[int] = deque()
        mapping = None if joined.peer_arena is None else Mapping(*joined.peer_arena, self._released.append)
        self._writer = FrameWriter(life, offer.incarnation)
        self._reader = FrameReader(offer.incarnation, life, self._frame, mapping)
        self._received = received

    def fileno(self) -> int:
        return self._sock.fileno()

    def send(self, messages: list[Message]) -> None:
        """Send, waiting for the socket.

        Raises:
            OSError: the connection is broken; it must not be used any more.
            InvalidArgumentError: a value cannot be sent; the connection must not be used any more either.
        """
        self.is_spoilt = True
        out: list[bytes | memoryview] = []
        write = self._writer.write
        if self._released:
            write(Message(Kind.RELEASE, 0, "", b"".join(_OFFSET.pack(o) for o in self._take_released())), out)
        for message in messages:
            write(message, out, self._share(message.value) if message.kind is Kind.TENSOR else None)
        if len(out) == 1:
            self._sock.sendall(out[0])
        elif all(b.__class__ is bytes for b in out):
            self._sock.sendall(b"".join(out))
        else:
            for buffer in out:
                self._sock.sendall(buffer)
        self.is_spoilt = False

    def receive(self) -> None:
        """Read what is there, or wait for something; frames go to `received`.

        Raises:
            OSError, OpError: the connection is broken; it must not be used any more.
        """
        count = self._sock.recv_into(self._reader.space())
        if not count:
            raise ConnectionError("it closed the connection")
        self._reader.filled(count)

    def _frame(self, frame: Frame) -> None:
        if frame.kind is Kind.RELEASE:
            if self._loans is not None:
                for (offset,) in _OFFSET.iter_unpack(frame.payload):
                    self._loans.take_back(offset)
        elif frame.kind is not Kind.PING:
            self._received(self, frame)

    def _share(self, value: Any) -> Place | None:
        if self._loans is None or getattr(value, "nbytes", 0) < LEAST:
            return None
        array = host_array(value)
        return None if array.dtype.hasobject else self._loans.lend(array)  # type: ignore[arg-type]

    def _take_released(self) -> list[int]:
        return [self._released.popleft() for _ in range(len(self._released))]

    def close(self) -> None:
        self._sock.close()
        if self._loans is not None:
            self._loans.arena.close()
