"""dtf.WorkerService: what other tasks may ask of this one, and the streams their tensors and steps come on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.executor.trace import StepTrace
from dtfctl.runtime.framework.errors import (
    AbortedError,
    InvalidArgumentError,
    OpError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from dtfctl.runtime.rendezvous.frames import Frame, Kind
from dtfctl.runtime.rendezvous.transports.grpc_stream import FROM_LIFE, FROM_TASK, TO_LIFE, ServerLink
from dtfctl.runtime.services.grpc_tools import abort, service, unary
from dtfctl.runtime.services.peers import Peers
from dtfctl.runtime.services.step import Step
from dtfctl.runtime.services.tasks import GRAPHS, RUN, TRACE, graph_with_ranks
from dtfctl.runtime.services.threads import submit
from dtfctl.runtime.services.worker import Partition, Worker, partition_graphs

NAME = "dtf.WorkerService"
# First part of the common name in a task's certificate.
ROLE = "task"


class WorkerService:
    """Handlers, with one `_Inbound` a stream.

    Args:
        needs_certificate: refuse callers whose certificate is not a task's.
    """

    def __init__(self, worker: Worker, peers: Peers, life: int, needs_certificate: bool) -> None:
        self._worker = worker
        self._peers = peers
        self._life = life
        self._needs_certificate = needs_certificate
        self._lock = threading.Lock()
        self._inbound: set[_Inbound] = set()

    def handler(self) -> grpc.GenericRpcHandler:
        w = worker_pb2
        methods = {
            "GetStatus": (w.TaskStatusRequest, self.get_status),
            "CreateSession": (w.CreateWorkerSessionRequest, self.create_session),
            "DeleteSession": (w.DeleteWorkerSessionRequest, self.delete_session),
            "RegisterPartition": (w.RegisterPartitionRequest, self.register),
            "DeregisterPartition": (w.DeregisterPartitionRequest, self.deregister),
            "ClearContainers": (w.ClearContainersRequest, self.clear_containers),
        }
        handlers = {name: unary(kind, self._checked(function)) for name, (kind, function) in methods.items()}
        handlers["Stream"] = grpc.stream_stream_rpc_method_handler(self.stream)
        return service(NAME, handlers)

    def _checked(self, function: Any) -> Any:
        def call(request: Any, context: grpc.ServicerContext) -> Any:
            self._check_caller(context)
            return function(request)

        return call

    def _check_caller(self, context: grpc.ServicerContext) -> None:
        if not self._needs_certificate:
            return
        names = context.auth_context().get("x509_common_name", ())
        if not names:
            raise UnauthenticatedError("Tasks talk to each other with certificates only")
        role = names[0].decode(errors="replace").partition(":")[0]
        if role != ROLE:
            raise PermissionDeniedError(f"A certificate for {role!r} does not admit to what tasks may do")

    # Requests ---------------------------------------------------------------------------------------------------------

    def get_status(self, request: worker_pb2.TaskStatusRequest) -> worker_pb2.TaskStatus:
        return worker_pb2.TaskStatus(
            task=self._worker.task, incarnation=self._life, device=[d.to_proto() for d in self._worker.devices]
        )

    def create_session(self, request: worker_pb2.CreateWorkerSessionRequest) -> worker_pb2.CreateWorkerSessionResponse:
        if request.incarnation != self._life:
            raise AbortedError(f"{self._worker.task} was restarted while the session was being made")
        for peer in request.peer:
            self._peers.learn(peer.task, peer.incarnation)
        self._peers.learn(request.master_task, request.master_incarnation)
        self._worker.create_session(request.session, request.isolate, (request.master_task, request.master_incarnation))
        return worker_pb2.CreateWorkerSessionResponse()

    def delete_session(self, request: worker_pb2.DeleteWorkerSessionRequest) -> worker_pb2.DeleteWorkerSessionResponse:
        self._worker.delete_session(request.session)
        return worker_pb2.DeleteWorkerSessionResponse()

    def register(self, request: worker_pb2.RegisterPartitionRequest) -> worker_pb2.RegisterPartitionResponse:
        if len(request.rank) != len(request.graph.node):
            raise InvalidArgumentError("A partition needs a rank for each node")
        graph = graph_with_ranks(request.graph, list(request.rank))
        partition = self._worker.register(request.session, graph, request.partial)
        return worker_pb2.RegisterPartitionResponse(handle=partition.handle)

    def deregister(self, request: worker_pb2.DeregisterPartitionRequest) -> worker_pb2.DeregisterPartitionResponse:
        self._worker.deregister(request.session, request.handle)
        return worker_pb2.DeregisterPartitionResponse()

    def clear_containers(self, request: worker_pb2.ClearContainersRequest) -> worker_pb2.ClearContainersResponse:
        self._worker.clear_containers(list(request.container))
        return worker_pb2.ClearContainersResponse()

    # Streams ----------------------------------------------------------------------------------------------------------

    def stream(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """A peer's tensors and runs in, what came of the runs out."""
        try:
            self._check_caller(context)
            task, sender, receiver = _introduction(context)
            self._peers.check_sender(task, sender, receiver)
        except OpError as e:
            abort(context, e)
        inbound = _Inbound(self, self._worker, ServerLink(task, self._life, sender))
        with self._lock:
            self._inbound.add(inbound)
        return inbound.link.serve(requests, context, inbound.receive, inbound.failed)

    def ended(self, inbound: _Inbound, error: OpError) -> None:
        """A stream broke: what the peer was still to send in any step will not come."""
        with self._lock:
            self._inbound.discard(inbound)
        link = inbound.link
        if self._peers.life_of(link.peer_task) == link.peer_life:
            self._worker.peer_lost(link.peer_task, error)

    def close(self) -> None:
        with self._lock:
            inbound = list(self._inbound)
        for stream in inbound:
            stream.link.close()


class _Inbound:
    """A stream from a peer, and the steps it has started here."""

    def __init__(self, owner: WorkerService, worker: Worker, link: ServerLink) -> None:
        self.link = link
        self._owner = owner
        self._worker = worker
        self._steps: set[int] = set()

    def receive(self, frame: Frame) -> None:
        if frame.kind is Kind.TENSOR:
            self._worker.receive(frame)
        elif frame.kind is Kind.RUN:
            self._start(frame)
        elif frame.kind is Kind.CANCEL:
            self._worker.cancel(frame.step)
        elif frame.kind is Kind.CLEANUP:
            self._steps.discard(frame.step)
            self._worker.cleanup(frame.step)
        else:
            raise InvalidArgumentError(f"A frame {frame.kind.name} came the wrong way")

    def _start(self, frame: Frame) -> None:
        if len(frame.payload) != RUN.size:
            raise InvalidArgumentError(f"A RUN frame of {len(frame.payload)} bytes")
        handle, flags = RUN.unpack(frame.payload)
        self._steps.add(frame.step)
        try:
            partition = self._worker.partition(frame.key, handle)
            step = self._worker.begin(frame.step)
        except OpError as e:
            self._answer(frame.step, worker_pb2.StepReport(code=e.error_code, message=e.text, derived=e.derived))
            return
        step.peers.add(self.link.peer_task)
        submit(self._run, partition, step, flags)

    def _run(self, partition: Partition, step: Step, flags: int) -> None:
        trace = StepTrace() if flags & TRACE else None
        report = None
        try:
            self._worker.run(partition, step, trace)
        except OpError as e:
            report = worker_pb2.StepReport(code=e.error_code, message=e.text, derived=e.derived)
        else:
            if flags:
                report = worker_pb2.StepReport()
                if trace is not None:
                    report.step_stats.CopyFrom(trace.to_proto())
                if flags & GRAPHS:
                    report.partition_graph.extend(partition_graphs(partition))
        self._answer(step.step_id, report)

    def _answer(self, step_id: int, report: worker_pb2.StepReport | None) -> None:
        payload = b"" if report is None else report.SerializeToString()
        try:
            self.link.send_control(Kind.DONE, step_id, payload=payload)
        except OpError:
            # The master is gone; `failed` cleans up after it.
            return

    def failed(self, error: OpError) -> None:
        """The peer is gone, and with it the master of the steps it started: end and forget them."""
        for step_id in list(self._steps):
            self._worker.cancel(step_id, error)
            self._worker.cleanup(step_id)
        self._owner.ended(self, error)


def _introduction(context: grpc.ServicerContext) -> tuple[str, int, int]:
    metadata = dict(context.invocation_metadata() or ())
    try:
        return str(metadata[FROM_TASK]), int(metadata[FROM_LIFE]), int(metadata[TO_LIFE])
    except (KeyError, ValueError):
        raise InvalidArgumentError(
            "A stream must say from which task and incarnation it comes, and for which"
        ) from None
