"""A client's connection to a task of its host: frames over a unix socket, long tensors in shared memory."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any

from dtfctl.net.pings import SILENT_S
from dtfctl.net.reasons import CLOSED
from dtfctl.protocol import worker_pb2
from dtfctl.runtime.memory.link_memory import LinkMemory
from dtfctl.runtime.memory.shared_memory import LEAST, Place
from dtfctl.runtime.rendezvous.frames import Frame, FrameReader, FrameWriter, Kind, Message, host_array
from dtfctl.runtime.rendezvous.transports.handshake import Offer, connect_unix

_OFFSET = struct.Struct("<Q")


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
            self._sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("@ll", SILENT_S, 0))
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, option, 1 << 22)
        self._memory = LinkMemory(joined.arena, joined.peer_arena)
        self._writer = FrameWriter(life, offer.incarnation)
        self._reader = FrameReader(offer.incarnation, life, self._frame, self._memory.mapping)
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
        if self._memory.released:
            write(Message(Kind.RELEASE, 0, "", b"".join(map(_OFFSET.pack, self._memory.take_released()))), out)
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
            raise ConnectionError(f"it {CLOSED}")
        self._reader.filled(count)

    def _frame(self, frame: Frame) -> None:
        if frame.kind is Kind.RELEASE:
            self._memory.take_back(offset for (offset,) in _OFFSET.iter_unpack(frame.payload))
        elif frame.kind is not Kind.PING:
            self._received(self, frame)

    def _share(self, value: Any) -> Place | None:
        loans = self._memory.loans
        if loans is None or getattr(value, "nbytes", 0) < LEAST:
            return None
        array = host_array(value)
        return None if array.dtype.hasobject else loans.lend(array)  # type: ignore[arg-type]

    def close(self) -> None:
        self._sock.close()
        self._memory.end()
