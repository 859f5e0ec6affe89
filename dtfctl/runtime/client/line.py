"""A client's side of the short way to a master on its host; see services/client_service.py.

A thread that runs a step writes to a socket and reads its answer there itself. Threads that run steps at the same time
use connections of their own.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.client.backend import as_host
from dtfctl.runtime.framework.errors import InternalError, OpError, UnavailableError, error_from_code
from dtfctl.runtime.platform.shared_memory import LEAST, Loans, Place
from dtfctl.runtime.rendezvous.frames import Frame, FrameReader, FrameWriter, Kind, Message, host_array
from dtfctl.runtime.rendezvous.patience import Patience
from dtfctl.runtime.rendezvous.transports.arena import Mapping
from dtfctl.runtime.rendezvous.transports.handshake import Offer, connect_unix, this_place

_OFFSET = struct.Struct("<Q")
_NUMBER = 8
SILENCE_S = 20
Ask = Callable[[worker_pb2.OpenClientRequest], worker_pb2.OpenLinkResponse]


class _Connection:
    """One socket, used by one thread at a time."""

    def __init__(self, offer: worker_pb2.OpenLinkResponse, life: int) -> None:
        """Connect.

        Raises:
            OSError, OpError.
        """
        joined = connect_unix(Offer(offer.place, offer.unix_name, 0, offer.ticket, offer.secret, False))
        self._sock = joined.sock
        self._sock.settimeout(None)
        # A master that lives says so while it runs a step.
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", SILENCE_S, 0))
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, option, 1 << 22)
        self._loans = None if joined.arena is None else Loans(joined.arena)
        self._released: deque[int] = deque()
        mapping = None if joined.peer_arena is None else Mapping(*joined.peer_arena, self._released.append)
        self._writer = FrameWriter(life, offer.incarnation)
        self._reader = FrameReader(offer.incarnation, life, self._received, mapping)
        self._calls = itertools.count(1)
        self._values: list[Any] = []
        self._answer: Frame | None = None
        self._known: set[int] = set()
        self._patience = Patience()
        self._poll = select.poll()
        self._poll.register(self._sock, select.POLLIN)

    def call(self, signature: _Signature, values: Sequence[Any]) -> list[Any]:
        """Run a step.

        Raises:
            OpError: the step failed.
            OSError: the connection did; it must not be used any more.
        """
        call = next(self._calls)
        out: list[bytes | memoryview] = []
        write = self._writer.write
        if self._released:
            write(Message(Kind.RELEASE, 0, "", b"".join(_OFFSET.pack(o) for o in self._take_released())), out)
        if signature.number not in self._known:
            self._known.add(signature.number)
            write(Message(Kind.DEFINE, 0, "", signature.definition), out)
        for i, value in enumerate(values):
            write(Message(Kind.TENSOR, call, f"{i};0:0", value), out, self._share(value))
        write(Message(Kind.CALL, call, "", signature.payload), out)
        self._send(out)
        self._answer, self._values = None, []
        reader, receive = self._reader, self._sock.recv_into
        look, readable = self._patience.look, self._poll.poll
        while self._answer is None:
            look(readable)
            count = receive(reader.space())
            if not count:
                raise ConnectionError("it closed the connection")
            reader.filled(count)
        payload, fetched = self._answer.payload, self._values
        self._answer, self._values = None, []
        if payload:
            report = worker_pb2.StepReport.FromString(payload)
            raise error_from_code(report.code, report.message)
        return [as_host(value) for value in fetched]

    def _share(self, value: Any) -> Place | None:
        if self._loans is None or getattr(value, "nbytes", 0) < LEAST:
            return None
        array = host_array(value)
        return None if array.dtype.hasobject else self._loans.lend(array)  # type: ignore[arg-type]

    def _send(self, out: list[bytes | memoryview]) -> None:
        if all(b.__class__ is bytes for b in out):
            self._sock.sendall(b"".join(out))
            return
        for buffer in out:
            self._sock.sendall(buffer)

    def _take_released(self) -> list[int]:
        return [self._released.popleft() for _ in range(len(self._released))]

    def _received(self, frame: Frame) -> None:
        if frame.kind is Kind.TENSOR:
            self._values.append(frame.value)
        elif frame.kind is Kind.ANSWER:
            self._answer = frame
        elif frame.kind is Kind.RELEASE and self._loans is not None:
            for (offset,) in _OFFSET.iter_unpack(frame.payload):
                self._loans.take_back(offset)

    def close(self) -> None:
        self._sock.close()
        if self._loans is not None:
            self._loans.arena.close()


class _Signature:
    def __init__(self, session: str, number: int, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]):
        self.number = number
        self.count = len(fetches)
        self.payload = number.to_bytes(_NUMBER, "little")
        self.definition = worker_pb2.ClientSignature(
            session=session, number=number, feed=feeds, fetch=fetches, target=targets
        ).SerializeToString()


class Line:
    """The short way to the master of one session.

    Args:
        session: its handle.
        address: of the master, for messages.
        ask: asks the master for a connection, over gRPC.
    """

    def __init__(self, session: str, address: str, ask: Ask) -> None:
        self._session = session
        self._address = address
        self._ask = ask
        self._idle: list[_Connection] = []
        self._numbers = itertools.count(1)
        self._closed = False
        self._lock = threading.Lock()

    def open(self) -> bool:
        """Make the first connection; False where there can be none."""
        try:
            connection = self._connect()
        except (OSError, OpError):
            return False
        self._idle.append(connection)
        return True

    def function(
        self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
    ) -> Callable[[Sequence[Any]], list[Any]]:
        """A function from fed to fetched values, which runs a step. It raises OpError when the step fails."""
        unique = list(dict.fromkeys(fetches))
        signature = _Signature(self._session, next(self._numbers), feeds, unique, targets)
        places = None if len(unique) == len(fetches) else [unique.index(f) for f in fetches]

        def run(values: Sequence[Any]) -> list[Any]:
            fetched = self._call(signature, values)
            if len(fetched) != signature.count:
                raise InternalError("The master's answer lacks fetched tensors")
            return fetched if places is None else [fetched[i] for i in places]

        return run

    def _call(self, signature: _Signature, values: Sequence[Any]) -> list[Any]:
        connection: _Connection | None = None
        try:
            try:
                connection = self._idle.pop()
            except IndexError:
                connection = self._connect()
            fetched = connection.call(signature, values)
        except OSError as e:
            if connection is not None:
                connection.close()
            if isinstance(e, BlockingIOError):
                raise UnavailableError(
                    f"The master at {self._address} has been silent for {SILENCE_S} s in a step"
                ) from None
            raise UnavailableError(f"The master at {self._address} cannot be reached: {e.strerror or e}") from None
        except OpError:
            if connection is not None:
                self._put_back(connection)
            raise
        except BaseException:
            # Interrupted: closing is what tells the master to give the step up.
            if connection is not None:
                connection.close()
            raise
        self._put_back(connection)
        return fetched

    def _connect(self) -> _Connection:
        life = secrets.randbits(63) | 1
        offer = self._ask(worker_pb2.OpenClientRequest(place=this_place(), incarnation=life))
        if self._closed or not offer.unix_name:
            raise UnavailableError(f"The master at {self._address} takes no connection but gRPC")
        return _Connection(offer, life)

    def _put_back(self, connection: _Connection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
