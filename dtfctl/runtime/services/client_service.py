"""The short way between a client and its master on one host: frames over a unix socket, long tensors in shared memory.

A client asks for the connection over gRPC. On it, it says once what it will run (DEFINE), and then sends fed tensors
and a CALL, and gets the fetched tensors and an ANSWER: empty, or a StepReport with an error. Sessions are made and
extended over gRPC, and what needs RunOptions goes there too.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

import grpc
import numpy as np

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import CancelledError, InternalError, InvalidArgumentError, OpError
from dtfctl.runtime.rendezvous.frames import Frame, Kind, Message
from dtfctl.runtime.rendezvous.reactor import REACTOR
from dtfctl.runtime.rendezvous.transports.base import Link
from dtfctl.runtime.rendezvous.transports.handshake import Door, Joined, this_place
from dtfctl.runtime.rendezvous.transports.sockets import SocketLink
from dtfctl.runtime.services.compiled_step import StepOptions
from dtfctl.runtime.services.direct import DirectStep
from dtfctl.runtime.services.grpc_tools import service, unary
from dtfctl.runtime.services.master import Master
from dtfctl.runtime.services.master_session import MasterSession
from dtfctl.runtime.services.spread import SpreadStep
from dtfctl.runtime.services.threads import submit
from dtfctl.runtime.services.worker import LIGHT_S

log = logging.getLogger(__name__)
NAME = "dtf.ClientService"
PING = f"/{NAME}/Ping"
# Steps a client may define on one connection; then it must make another.
MAX_SIGNATURES = 1 << 16


class ClientService:
    """Lets clients in. `life`: the task's incarnation."""

    def __init__(self, master: Master, life: int) -> None:
        self._master = master
        self._life = life
        self._door: Door[int] = Door(self._joined)
        self._lock = threading.Lock()
        self._clients: set[_Client] = set()

    def handler(self) -> grpc.GenericRpcHandler:
        ping = grpc.unary_unary_rpc_method_handler(lambda _data, _context: b"")
        return service(NAME, {"Open": unary(worker_pb2.OpenClientRequest, self.open), "Ping": ping})

    def listen(self) -> None:
        """Start.

        Raises:
            OSError.
        """
        self._door.listen(None)

    def open(self, request: worker_pb2.OpenClientRequest, context: grpc.ServicerContext) -> worker_pb2.OpenLinkResponse:
        if request.place != this_place() or not self._door.unix_name:
            return worker_pb2.OpenLinkResponse()
        offer = self._door.offer(request.incarnation)
        return worker_pb2.OpenLinkResponse(
            place=offer.place,
            unix_name=offer.unix_name,
            ticket=offer.ticket,
            secret=offer.secret,
            incarnation=self._life,
        )

    def _joined(self, joined: Joined, life: int) -> None:
        client = _Client(self, self._master)
        try:
            link = SocketLink(
                joined.sock,
                "the client",
                self._life,
                life,
                client,
                joined.arena,
                joined.peer_arena,
                is_waited_for=lambda: bool(client.running),
            )
        except (OSError, OpError) as e:
            log.info("a client's connection cannot be used: %s", e)
            joined.drop()
            return
        client.link = link
        with self._lock:
            self._clients.add(client)
        link.start()

    def gone(self, client: _Client) -> None:
        with self._lock:
            self._clients.discard(client)

    def close(self) -> None:
        """Close all connections; what runs for them is cancelled."""
        if self._door.unix_name:
            self._door.close()
        with self._lock:
            clients = list(self._clients)
        for client in clients:
            if client.link is not None:
                client.link.close()


class _Signature:
    """Something a client runs.

    Attributes:
        is_light: a run computes next to nothing, so it may run where its call is read.
    """

    def __init__(self, session: MasterSession, proto: worker_pb2.ClientSignature) -> None:
        self._session = session
        self._feeds, self._fetches, self._targets = list(proto.feed), list(proto.fetch), list(proto.target)
        self._direct: DirectStep | SpreadStep | None = None
        self._is_known = False
        self._busy_s = 1.0

    @property
    def is_light(self) -> bool:
        return self._is_known and self._busy_s < LIGHT_S

    def run(self, values: list[Any], token: CancellationToken) -> list[Any]:
        """The fetched values.

        Raises:
            OpError: the step failed.
        """
        if len(values) != len(self._feeds):
            raise InvalidArgumentError(f"Expected {len(self._feeds)} feed tensors, but got {len(values)}")
        session = self._session
        if not self._is_known:
            self._direct = session.direct_step(self._feeds, self._fetches, self._targets)
        started = time.perf_counter()
        if self._direct is not None:
            return self._measured(self._direct(values, token), started)
        how = StepOptions(None, None, token)
        return self._measured(session.run(dict(zip(self._feeds, values)), self._fetches, self._targets, how), started)

    def _measured(self, values: list[Any], started: float) -> list[Any]:
        compiled = self._session.compiled(self._feeds, self._fetches, self._targets)
        local = compiled.local
        if compiled.remote:
            # Waiting is for frames, which is what the reactor's thread does anyway.
            self._busy_s = 0.0 if local is None or local.is_light else 1.0
        elif local is None or len(local.executors) != 1 or not local.executors[0].runs_in_line:
            self._busy_s = 1.0
        else:
            busy = time.perf_counter() - started
            self._busy_s += (busy - self._busy_s) * (0.5 if busy < self._busy_s else 0.25)
        self._is_known = True
        return values


class _Client:
    """One connection; the owner of its link.

    Attributes:
        running: what cancels the calls that run.
    """

    def __init__(self, service: ClientService, master: Master) -> None:
        self.link: SocketLink | None = None
        self._service = service
        self._master = master
        self._signatures: dict[int, _Signature | OpError] = {}
        self._fed: dict[int, list[Any]] = {}
        self.running: dict[int, CancellationToken] = {}

    def opened(self, link: Link) -> None:
        """Nothing more to know."""

    def received(self, link: Link, frame: Frame) -> None:
        kind = frame.kind
        if kind is Kind.TENSOR:
            if frame.step not in self._fed and len(self._fed) >= 1024:
                raise InvalidArgumentError("A client feeds more steps than it calls")
            self._fed.setdefault(frame.step, []).append(frame.value)
        elif kind is Kind.CALL:
            self._call(link, frame)
        elif kind is Kind.DEFINE:
            self._define(frame)
        else:
            raise InvalidArgumentError(f"A frame {kind.name} came the wrong way")

    def ended(self, link: Link, error: OpError) -> None:
        gone = CancelledError("The client gave up the step: it is gone")
        for token in list(self.running.values()):
            token.cancel(gone)
        self._service.gone(self)

    def _define(self, frame: Frame) -> None:
        try:
            proto = worker_pb2.ClientSignature.FromString(frame.payload)
        except Exception as e:
            raise InvalidArgumentError(f"A client's signature cannot be read: {e}") from None
        if len(self._signatures) >= MAX_SIGNATURES:
            raise InvalidArgumentError("A client defines too many steps on one connection")
        try:
            self._signatures[proto.number] = _Signature(self._master.session(proto.session), proto)
        except OpError as e:
            self._signatures[proto.number] = e

    def _call(self, link: Link, frame: Frame) -> None:
        number = int.from_bytes(frame.payload, "little")
        values = self._fed.pop(frame.step, [])
        signature = self._signatures.get(number)
        if signature is None:
            raise InvalidArgumentError(f"A client calls {number}, which it has not defined")
        call = frame.step
        if isinstance(signature, OpError):
            self._answer(link, call, [], signature)
            return
        self._master.requests += 1
        if signature.is_light:
            REACTOR.run_soon(lambda: self._run(link, call, signature, values), submit)
        else:
            submit(self._run, link, call, signature, values)

    def _run(self, link: Link, call: int, signature: _Signature, values: list[Any]) -> None:
        token = self.running[call] = CancellationToken()
        try:
            fetched = signature.run(values, token)
        except OpError as e:
            self._answer(link, call, [], e)
        except Exception as e:
            log.exception("a step of a client failed")
            self._answer(link, call, [], InternalError(f"{type(e).__name__}: {e}"))
        else:
            self._answer(link, call, fetched, None)
        finally:
            self.running.pop(call, None)

    def _answer(self, link: Link, call: int, fetched: list[Any], error: OpError | None) -> None:
        payload = b""
        if error is not None:
            payload = worker_pb2.StepReport(code=error.error_code, message=error.text).SerializeToString()
        messages = [Message(Kind.TENSOR, call, f"{i};0:0", _sendable(v)) for i, v in enumerate(fetched)]
        messages.append(Message(Kind.ANSWER, call, "", payload))
        try:
            link.send(messages)
        except OpError as e:
            if error is None and isinstance(e, InvalidArgumentError):
                self._answer(link, call, [], e)


def _sendable(value: Any) -> Any:
    """A fetched value as frames take it: Python's own scalars as arrays."""
    return value if hasattr(value, "dtype") else np.asarray(value)
