"""The short way between a client and its master on one host: frames over a unix socket, long tensors in shared memory.

A client asks for the connection over gRPC. On it, it says once what it will run (DEFINE), and then sends fed tensors
and a CALL, and gets the fetched tensors and an ANSWER: empty, or a StepReport with an error. Sessions are made and
extended over gRPC, and what needs RunOptions goes there too. Steps over several tasks of one host it starts in all of
them itself, once it has asked for a PLAN (client_plans.py, client_parts.py).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import CancelledError, InternalError, InvalidArgumentError, OpError
from dtfctl.runtime.rendezvous.frames import Frame, Kind, Message
from dtfctl.runtime.rendezvous.reactor import REACTOR
from dtfctl.runtime.rendezvous.transports.base import Link
from dtfctl.runtime.rendezvous.transports.handshake import Door, Joined, this_place
from dtfctl.runtime.rendezvous.transports.sockets import SocketLink
from dtfctl.runtime.services.calls import Call, Handler, Unary
from dtfctl.runtime.services.client_parts import ClientParts, send_fetched
from dtfctl.runtime.services.client_plans import client_plan
from dtfctl.runtime.services.compiled_step import CompiledStep, StepOptions
from dtfctl.runtime.services.grpc_tools import service, unary
from dtfctl.runtime.services.master import Master
from dtfctl.runtime.services.master_session import MasterSession
from dtfctl.runtime.services.prepared_step import PreparedStep
from dtfctl.runtime.services.session_users import SessionUsers
from dtfctl.runtime.services.worker import Worker
from dtfctl.runtime.steps.abandon import when_late
from dtfctl.runtime.steps.threads import submit
from dtfctl.runtime.steps.worker_session import LIGHT_S

log = logging.getLogger(__name__)
NAME = "dtf.ClientService"
PING = f"/{NAME}/Ping"
# Steps a client may define on one connection; then it must make another.
MAX_SIGNATURES = 1 << 16
# Looking a member up in its enumeration takes as long as much else here.
_TENSOR, _RUN = Kind.TENSOR, Kind.RUN


class ClientService:
    """Lets clients in.

    Args:
        worker: runs what clients start themselves.
        life: the task's incarnation.
        users: is told which connections use which sessions.
    """

    def __init__(self, master: Master, worker: Worker, life: int, users: SessionUsers) -> None:
        self._master = master
        self._worker = worker
        self._life = life
        self._users = users
        self._door: Door[int] = Door(self._joined)
        self._lock = threading.Lock()
        self._clients: set[_Client] = set()
        self._greeting: Message | None = None
        self.recorded: Callable[[bytes], None] = lambda _: None
        """Told what a client has recorded: a ClientRecord."""

    def handlers(self) -> dict[str, Handler]:
        ping = Unary(lambda _data, _call: b"")
        return service(NAME, {"Open": unary(worker_pb2.OpenClientRequest, self.open), "Ping": ping})

    def listen(self) -> None:
        """Start listening for clients.

        Raises:
            OSError.
        """
        self._door.listen(None)

    def open(self, request: worker_pb2.OpenClientRequest, call: Call) -> worker_pb2.OpenLinkResponse:
        return self.invite(request)

    def invite(self, request: worker_pb2.OpenClientRequest) -> worker_pb2.OpenLinkResponse:
        """Tell how a client may connect to this task; empty where it can only use gRPC."""
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
        client = _Client(self, self._master, self._worker, self._users)
        try:
            link = SocketLink(
                joined.sock,
                "the client",
                self._life,
                life,
                client,
                joined.arena,
                joined.peer_arena,
                is_waited_for=lambda: bool(client.running) or client.parts.is_busy,
            )
        except (OSError, OpError) as e:
            log.info("a client's connection cannot be used: %s", e)
            joined.drop()
            return
        client.link = link
        with self._lock:
            self._clients.add(client)
        link.start()
        greeting = self._greeting
        if greeting is not None:
            with contextlib.suppress(OpError):
                link.send((greeting,))

    def gone(self, client: _Client) -> None:
        """Forget a connection."""
        with self._lock:
            self._clients.discard(client)
        self._users.left(client)

    def peer_lost(self, task: str, life: int, error: OpError) -> None:
        """Tell those who run steps themselves that a life of a task is gone."""
        lost = worker_pb2.LostTask(task=task, incarnation=life, code=error.error_code, message=error.message)
        self._tell_all(Message(Kind.LOST, 0, "", lost.SerializeToString()))

    def record(self, start: bytes) -> int:
        """Have clients record, also those that come later; without a name, that is over (a ProfileStart).

        Returns:
            How many connections were told.
        """
        message = Message(Kind.RECORD, 0, "", start)
        self._greeting = message if start else None
        return self._tell_all(message)

    def _tell_all(self, message: Message) -> int:
        with self._lock:
            links = [client.link for client in self._clients if client.link is not None]
        for link in links:
            with contextlib.suppress(OpError):
                link.send((message,))
        return len(links)

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
        session: whose graph has it.
        is_light: a run computes next to nothing, so it may run where its call is read.
    """

    def __init__(self, session: MasterSession, proto: worker_pb2.ClientSignature) -> None:
        self.session = session
        self._what = list(proto.feed), list(proto.fetch), list(proto.target), proto.graph_key
        self._prepared: PreparedStep | None = None
        self._busy_s = 1.0

    @property
    def is_light(self) -> bool:
        return self._busy_s < LIGHT_S

    def run(self, values: list[Any], token: CancellationToken) -> list[Any]:
        """Give the fetched values.

        Raises:
            OpError: the step failed.
        """
        prepared = self._prepared
        if prepared is None:
            prepared = self._prepared = self.session.prepare(*self._what)
        started = time.perf_counter()
        values = prepared.run(values, StepOptions(cancellation=token, is_waited_for=False))
        self._measure(prepared.compiled, started)
        return values

    def _measure(self, compiled: CompiledStep, started: float) -> None:
        local = compiled.local
        if compiled.remote:
            # Waiting is for frames, which is what the reactor's thread does anyway.
            self._busy_s = 0.0 if local is None or local.is_light else 1.0
        elif local is None or len(local.executors) != 1 or not local.executors[0].runs_in_line:
            self._busy_s = 1.0
        else:
            busy = time.perf_counter() - started
            self._busy_s += (busy - self._busy_s) * (0.5 if busy < self._busy_s else 0.25)


class _Client:
    """One connection; the owner of its link.

    Attributes:
        running: what cancels the calls that run.
    """

    def __init__(self, service: ClientService, master: Master, worker: Worker, users: SessionUsers) -> None:
        self.parts = ClientParts(worker)
        self.link: SocketLink | None = None
        self._service = service
        self._master = master
        self._users = users
        self._signatures: dict[int, _Signature | OpError] = {}
        self._fed: dict[int, list[Any]] = {}
        self.running: dict[int, CancellationToken] = {}
        self._planned: set[MasterSession] = set()
        self._is_gone = False

    def opened(self, link: Link) -> None:
        """Note that the link is there; there is nothing more to know."""

    def received(self, link: Link, frame: Frame) -> None:
        kind = frame.kind
        if kind is _RUN:
            self.parts.start(link, frame, self._fed.pop(frame.step, []))
        elif kind is _TENSOR:
            if frame.step not in self._fed and len(self._fed) >= 1024:
                raise InvalidArgumentError("A client feeds more steps than it calls")
            self._fed.setdefault(frame.step, []).append(frame.value)
        elif kind is Kind.CALL:
            self._call(link, frame)
        elif kind is Kind.DEFINE:
            self._define(frame)
        elif kind is Kind.PLAN or kind is Kind.OPEN:
            submit(self._reply, link, frame)
        elif kind is Kind.PARTITION:
            self.parts.define(frame)
        elif kind is Kind.CANCEL:
            self.parts.cancel(link, frame.step)
        elif kind is Kind.RECORD:
            self._service.recorded(frame.payload)
        elif kind is Kind.CLEANUP:
            self._fed.pop(frame.step, None)
            self.parts.forget(frame.step)
        else:
            raise InvalidArgumentError(f"A frame {kind.name} came the wrong way")

    def ended(self, link: Link, error: OpError) -> None:
        gone = CancelledError("The client gave up the step: it is gone")
        for token in list(self.running.values()):
            token.cancel(gone)
        self.parts.ended(gone)
        self._is_gone = True
        for session in list(self._planned):
            session.runners.discard(self)
        # The link and this hold each other: what its steps hold shall not wait for the collector.
        self._planned.clear()
        self._signatures.clear()
        self._fed.clear()
        self._service.gone(self)

    def _reply(self, link: Link, frame: Frame) -> None:
        """Answer a question of a client."""
        call = frame.step
        self.running[call] = CancellationToken()
        try:
            payload = self._plan(frame) if frame.kind is Kind.PLAN else self._invitation(frame)
            with contextlib.suppress(OpError):
                link.send((Message(frame.kind, call, "", payload), Message(Kind.ANSWER, call)))
        except OpError as e:
            self._answer(link, call, [], e)
        except Exception as e:
            log.exception("a client's question could not be answered")
            self._answer(link, call, [], InternalError(f"{type(e).__name__}: {e}"))
        finally:
            self.running.pop(call, None)

    def _plan(self, frame: Frame) -> bytes:
        proto = _signature(frame)
        session = self._master.session(proto.session)
        plan = client_plan(session, list(proto.feed), list(proto.fetch), list(proto.target), proto.graph_key)
        self._uses(session)
        if plan.part:
            session.runners.add(self)
            self._planned.add(session)
            if self._is_gone:
                session.runners.discard(self)
                self._planned.discard(session)
        return plan.SerializeToString()

    def _uses(self, session: MasterSession) -> None:
        self._users.uses(self, session)
        if self._is_gone:
            self._users.left(self)

    def _invitation(self, frame: Frame) -> bytes:
        try:
            request = worker_pb2.OpenClientRequest.FromString(frame.payload)
        except Exception as e:
            raise InvalidArgumentError(f"A client's request cannot be read: {e}") from None
        session = self._master.session(request.session)
        return session.open_client(request.task, request.place, request.incarnation).SerializeToString()

    def _define(self, frame: Frame) -> None:
        proto = _signature(frame)
        if len(self._signatures) >= MAX_SIGNATURES:
            raise InvalidArgumentError("A client defines too many steps on one connection")
        try:
            session = self._master.session(proto.session)
            self._uses(session)
            self._signatures[proto.number] = _Signature(session, proto)
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
        token = self.running[call] = CancellationToken(partial(self._cancelled, link, call))
        try:
            fetched = signature.run(values, token)
        except OpError as e:
            self._end(link, call, [], e)
        except Exception as e:
            log.exception("a step of a client failed")
            self._end(link, call, [], InternalError(f"{type(e).__name__}: {e}"))
        else:
            self._end(link, call, fetched, None)
        finally:
            self.running.pop(call, None)

    def _end(self, link: Link, call: int, fetched: list[Any], error: OpError | None) -> None:
        # It may have been answered for.
        if self.running.pop(call, None) is not None:
            self._answer(link, call, fetched, error)

    def _cancelled(self, link: Link, call: int) -> None:
        token = self.running.get(call)
        if token is not None:
            when_late(token, lambda: self._give_up(link, call))

    def _give_up(self, link: Link, call: int) -> None:
        """Answer a call that was told to end and goes on, so that the client need not wait for it."""
        token = self.running.pop(call, None)
        if token is not None:
            self._answer(link, call, [], token.reason)

    def _answer(self, link: Link, call: int, fetched: list[Any], error: OpError | None) -> None:
        payload = b""
        if error is not None:
            payload = worker_pb2.StepReport(code=error.error_code, message=error.text).SerializeToString()
        try:
            send_fetched(link, call, fetched, Message(Kind.ANSWER, call, "", payload))
        except OpError as e:
            if error is None and isinstance(e, InvalidArgumentError):
                self._answer(link, call, [], e)


def _signature(frame: Frame) -> worker_pb2.ClientSignature:
    try:
        return worker_pb2.ClientSignature.FromString(frame.payload)
    except Exception as e:
        raise InvalidArgumentError(f"A client's signature cannot be read: {e}") from None
