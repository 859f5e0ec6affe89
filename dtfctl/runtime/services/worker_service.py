"""dtf.WorkerService: what other tasks may ask of this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.compiler.pause import collector_paused
from dtfctl.runtime.framework.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    OpError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from dtfctl.runtime.rendezvous.transports.grpc_stream import FROM_LIFE, FROM_TASK, TO_LIFE, ServerLink
from dtfctl.runtime.rendezvous.transports.handshake import holder_of, this_place
from dtfctl.runtime.services.calls import Call, Handler, Stream
from dtfctl.runtime.services.exchange import Exchange
from dtfctl.runtime.services.grpc_tools import refuse, service, unary
from dtfctl.runtime.services.links import LinkMaker
from dtfctl.runtime.services.peers import Peers
from dtfctl.runtime.services.tasks import graph_with_ranks
from dtfctl.runtime.services.worker import Worker
from dtfctl.runtime.steps.grace import GRACE_S

NAME = "dtf.WorkerService"


class WorkerService:
    """The handlers of a worker's gRPC methods.

    Args:
        exchange, links: take the links other tasks open.
        needs_certificate: refuse callers whose certificate is not that of the task they say they are.
        clients: invites a client.
    """

    def __init__(
        self,
        worker: Worker,
        peers: Peers,
        exchange: Exchange,
        links: LinkMaker,
        life: int,
        needs_certificate: bool,
        clients: Callable[[worker_pb2.OpenClientRequest], worker_pb2.OpenLinkResponse],
    ) -> None:
        self._worker = worker
        self._peers = peers
        self._life = life
        self._exchange = exchange
        self._links = links
        self._needs_certificate = needs_certificate
        self._clients = clients

    def handlers(self) -> dict[str, Handler]:
        w = worker_pb2
        methods = {
            "GetStatus": (w.TaskStatusRequest, self.get_status),
            "CreateSession": (w.CreateWorkerSessionRequest, self.create_session),
            "DeleteSession": (w.DeleteWorkerSessionRequest, self.delete_session),
            "RegisterPartition": (w.RegisterPartitionRequest, self.register),
            "DeregisterPartition": (w.DeregisterPartitionRequest, self.deregister),
            "OpenLink": (w.OpenLinkRequest, self.open_link),
            "OpenClient": (w.OpenClientRequest, self.open_client),
            "ClearContainers": (w.ClearContainersRequest, self.clear_containers),
        }
        claims: dict[str, Callable[[Any], str]] = {
            "CreateSession": lambda request: str(request.master_task),
            "OpenLink": lambda request: str(request.task),
        }
        handlers: dict[str, Handler] = {
            name: unary(kind, self._checked(function, claims.get(name))) for name, (kind, function) in methods.items()
        }
        handlers["Stream"] = Stream(self.stream)
        return service(NAME, handlers)

    def _checked(self, function: Any, claim: Callable[[Any], str] | None) -> Any:
        """Make a handler check who calls; `claim` says which task a request says it comes from."""

        def checked(request: Any, call: Call) -> Any:
            self._check_caller(call, "" if claim is None else claim(request))
            return function(request)

        return checked

    def _check_caller(self, call: Call, claimed: str) -> None:
        """Refuse who is not a task, or another one than the one it says it is.

        Raises:
            UnauthenticatedError, PermissionDeniedError.
        """
        if not self._needs_certificate:
            return
        names = call.auth_context().get("x509_common_name", ())
        if not names:
            raise UnauthenticatedError("Tasks talk to each other with certificates only")
        try:
            holder = holder_of(names[0].decode(errors="replace"))
        except UnauthenticatedError as e:
            raise PermissionDeniedError(e.text) from None
        if claimed and claimed != holder:
            raise PermissionDeniedError(f"{holder} says that it is {claimed}")

    # Requests ---------------------------------------------------------------------------------------------------------

    def get_status(self, request: worker_pb2.TaskStatusRequest) -> worker_pb2.TaskStatus:
        return worker_pb2.TaskStatus(
            task=self._worker.task,
            incarnation=self._life,
            device=[d.to_proto() for d in self._worker.devices],
            place=this_place(),
        )

    def create_session(self, request: worker_pb2.CreateWorkerSessionRequest) -> worker_pb2.CreateWorkerSessionResponse:
        if request.incarnation != self._life:
            raise AbortedError(f"{self._worker.task} was restarted while the session was being made")
        for peer in request.peer:
            self._peers.learn(peer.task, peer.incarnation)
        self._peers.learn(request.master_task, request.master_incarnation)
        master = (request.master_task, request.master_incarnation)
        self._worker.create_session(request.session, request.isolate, master, request.job)
        return worker_pb2.CreateWorkerSessionResponse()

    def delete_session(self, request: worker_pb2.DeleteWorkerSessionRequest) -> worker_pb2.DeleteWorkerSessionResponse:
        self._worker.delete_session(request.session, CancelledError(request.reason), GRACE_S)
        return worker_pb2.DeleteWorkerSessionResponse()

    def register(self, request: worker_pb2.RegisterPartitionRequest) -> worker_pb2.RegisterPartitionResponse:
        if len(request.rank) != len(request.graph.node):
            raise InvalidArgumentError("A partition needs a rank for each node")
        with collector_paused():
            graph = graph_with_ranks(request.graph, list(request.rank))
            partition = self._worker.register(request.session, graph, request.partial, request.graph_key)
        return worker_pb2.RegisterPartitionResponse(handle=partition.handle)

    def deregister(self, request: worker_pb2.DeregisterPartitionRequest) -> worker_pb2.DeregisterPartitionResponse:
        self._worker.deregister(request.session, request.handle)
        return worker_pb2.DeregisterPartitionResponse()

    def clear_containers(self, request: worker_pb2.ClearContainersRequest) -> worker_pb2.ClearContainersResponse:
        self._worker.clear_containers(list(request.container), request.job)
        return worker_pb2.ClearContainersResponse()

    # Links ------------------------------------------------------------------------------------------------------------

    def open_link(self, request: worker_pb2.OpenLinkRequest) -> worker_pb2.OpenLinkResponse:
        self._peers.check_sender(request.task, request.incarnation, request.to_incarnation)
        return self._links.offer(request.task, request.incarnation, request.transport)

    def open_client(self, request: worker_pb2.OpenClientRequest) -> worker_pb2.OpenLinkResponse:
        """Invite a client of the master that asks."""
        if request.to_incarnation != self._life:
            raise AbortedError(f"{self._worker.task} was restarted: a client is for {request.to_incarnation}")
        return self._clients(request)

    def stream(self, requests: Iterator[bytes], call: Call) -> Iterator[bytes]:
        """Pass frames both ways, where nothing better than gRPC works."""
        try:
            task, sender, receiver = _introduction(call)
            self._check_caller(call, task)
            self._peers.check_sender(task, sender, receiver)
            link = ServerLink(task, self._life, sender, self._exchange)
            link.is_encrypted = self._needs_certificate
            self._exchange.opened(link)
        except OpError as e:
            refuse(call, e)
        return link.serve(requests, call.on_gone)


def _introduction(call: Call) -> tuple[str, int, int]:
    metadata = dict(call.metadata)
    try:
        return str(metadata[FROM_TASK]), int(metadata[FROM_LIFE]), int(metadata[TO_LIFE])
    except (KeyError, ValueError):
        raise InvalidArgumentError(
            "A stream must say from which task and incarnation it comes, and for which"
        ) from None
