"""The workers of a session, as its master uses them: this process's, and those behind links."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from dtfctl.protocol import device_pb2, graph_pb2, worker_pb2
from dtfctl.runtime.framework.errors import AbortedError, OpError
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.rendezvous.frames import Kind, Message
from dtfctl.runtime.services.peers import Peers
from dtfctl.runtime.services.worker import Worker
from dtfctl.runtime.steps.grace import GRACE_S
from dtfctl.runtime.steps.worker_session import Partition

# Payload of a RUN frame: handle of the partition, and what to report.
RUN = struct.Struct("<QB")
TRACE, GRAPHS = 1, 2
_RUN = Kind.RUN


class LocalTask:
    """The worker of the master's own task."""

    def __init__(self, worker: Worker, life: int) -> None:
        self.task = worker.task
        self.worker = worker
        self.life = life
        self.devices = [d.to_proto() for d in worker.devices]

    def create_session(self, session: str, isolate: bool, job: str) -> None:
        self.worker.create_session(session, isolate, (self.task, self.life), job)

    def delete_session(self, session: str, reason: OpError) -> None:
        self.worker.delete_session(session, reason, GRACE_S)

    def register(self, session: str, graph: NodeGraph, partial: bool, graph_key: int) -> Partition:
        return self.worker.register(session, graph, partial, graph_key)

    def deregister(self, session: str, handle: int) -> None:
        self.worker.deregister(session, handle)

    def clear_containers(self, containers: list[str], job: str) -> None:
        self.worker.clear_containers(containers, job)


@dataclass
class RemoteTask:
    """Another task's worker, in the life it had when the session was made.

    Attributes:
        life: a step is refused once the task has another, because its share of the session is lost.
        place: see `handshake.this_place`.
    """

    task: str
    peers: Peers
    life: int
    devices: list[device_pb2.DeviceAttributes]
    place: str = ""

    def create_session(
        self, session: str, isolate: bool, job: str, all_peers: list[worker_pb2.Peer] | None = None
    ) -> None:
        request = worker_pb2.CreateWorkerSessionRequest(
            session=session,
            isolate=isolate,
            master_task=self.peers.task,
            incarnation=self.life,
            peer=all_peers or [],
            master_incarnation=self.peers.life,
            job=job,
        )
        self.peers.request(self.task, "CreateSession", request, worker_pb2.CreateWorkerSessionResponse)

    def delete_session(self, session: str, reason: OpError) -> None:
        request = worker_pb2.DeleteWorkerSessionRequest(session=session, reason=reason.message)
        self.peers.request(self.task, "DeleteSession", request, worker_pb2.DeleteWorkerSessionResponse, 10.0)

    def begin_register(self, session: str, graph: NodeGraph, partial: bool, graph_key: int) -> Callable[[], int]:
        """Have the task plan its part of a step; what is returned waits for the handle.

        Args:
            graph_key: see `Worker.register`.

        Raises (what is returned too):
            OpError: the session is lost, the task cannot be reached, or a node cannot run there.
        """
        self.check(session)
        request = worker_pb2.RegisterPartitionRequest(
            session=session, rank=[n.rank for n in graph], partial=partial, graph_key=graph_key
        )
        graph.write(request.graph)
        answer = self.peers.request_async(
            self.task, "RegisterPartition", request, worker_pb2.RegisterPartitionResponse, 600.0
        )
        return lambda: int(answer.result().handle)

    def deregister(self, session: str, handle: int) -> None:
        request = worker_pb2.DeregisterPartitionRequest(session=session, handle=handle)
        self.peers.request_async(self.task, "DeregisterPartition", request, worker_pb2.DeregisterPartitionResponse)

    def clear_containers(self, containers: list[str], job: str) -> None:
        request = worker_pb2.ClearContainersRequest(container=containers, job=job)
        self.peers.request(self.task, "ClearContainers", request, worker_pb2.ClearContainersResponse)

    def open_client(self, session: str, place: str, client: int) -> worker_pb2.OpenLinkResponse:
        """Ask how a client of that place may connect to this very life of the task.

        Raises:
            OpError: see `check`; the task cannot be reached.
        """
        self.check(session)
        request = worker_pb2.OpenClientRequest(place=place, incarnation=client, to_incarnation=self.life)
        answer: worker_pb2.OpenLinkResponse = self.peers.request(
            self.task, "OpenClient", request, worker_pb2.OpenLinkResponse
        )
        return answer

    def check(self, session: str) -> None:
        """Refuse to go on in a session whose share in this task is lost.

        Raises:
            AbortedError: the task was restarted. UnavailableError: it is known to be down.
        """
        if self.peers.life_of(self.task) != self.life:
            raise AbortedError(
                f'Session handle is not found: {session}. Possibly this worker ("{self.task}") just restarted. '
                "Make a new session; variables of that task must be restored or initialized."
            )
        down = self.peers.down_reason(self.task)
        if down is not None:
            raise type(down)(down.message)

    def start(self, step: int, session: str, part: bytes) -> None:
        """Start a registered partition by the payload of a RUN frame; the answer is a DONE frame."""
        link = self.peers.link_to(self.task, self.life)
        if link is not None:
            link.send((Message(_RUN, step, "", part),))
        else:
            self.check(session)
            self.peers.send(self.task, (Message(_RUN, step, "", part),))

    def send(self, kind: Kind, step: int) -> None:
        """Send a control frame that needs no answer; there is nothing to tell a task that cannot be reached."""
        try:
            self.peers.send(self.task, (Message(kind, step),))
        except OpError:
            return


class RemotePart(NamedTuple):
    """A signature's part in another task.

    Attributes:
        start: payload of the RUN frame that starts it in a plain step.
    """

    task: RemoteTask
    handle: int
    start: bytes

    @staticmethod
    def of(task: RemoteTask, handle: int) -> RemotePart:
        return RemotePart(task, handle, RUN.pack(handle, 0))

    def reporting(self, flags: int) -> RemotePart:
        """Copy this part, started so that it reports what `flags` asks for."""
        return self._replace(start=RUN.pack(self.handle, flags))


def graph_with_ranks(graph_def: graph_pb2.GraphDef, ranks: list[int]) -> NodeGraph:
    """Build the graph of a RegisterPartitionRequest.

    Raises:
        OpError: it is malformed.
    """
    graph = NodeGraph.from_graph_def(graph_def)
    for node, rank in zip(graph, ranks):
        node.rank = rank
    return graph
