"""A task's worker: sessions, registered partitions, and the steps that run them. No gRPC here."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import dtfctl.runtime.kernels.control.tensor_list  # noqa: F401  Lists may arrive before a kernel here has made one.
from dtfctl.protocol import graph_pb2
from dtfctl.runtime.collective.leader import GROUP_BIT
from dtfctl.runtime.collective.members import Collectives
from dtfctl.runtime.collective.sessions import SessionCollectives
from dtfctl.runtime.compiler.collectives import split_collectives
from dtfctl.runtime.compiler.optimize import PLAIN_PLAN
from dtfctl.runtime.compiler.partition import split_by_device
from dtfctl.runtime.compiler.passes.products import share_products
from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.executor.keys import is_client_terminated
from dtfctl.runtime.executor.trace import StepTrace
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    OpError,
)
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.framework.structural_ops import RECVS, SENDS
from dtfctl.runtime.memory import kept_memory, shared_memory
from dtfctl.runtime.rendezvous.frames import Frame, Message
from dtfctl.runtime.rendezvous.routing import Routes, task_of_device
from dtfctl.runtime.rendezvous.transports.base import Transport
from dtfctl.runtime.steps.deadlines import DEADLINES
from dtfctl.runtime.steps.part import Part
from dtfctl.runtime.steps.step import Step
from dtfctl.runtime.steps.threads import submit
from dtfctl.runtime.steps.worker_session import Partition, WorkerSession

log = logging.getLogger(__name__)
# Ids of ended steps are remembered so that tensors still on their way to them find no home; those of jobs likewise.
_REMEMBERED = 4096
# A step nobody started here within this time of its first tensor is forgotten.
ORPHAN_S = 120.0
# How long after the end of a session or job its shared memory goes back to the system; peers have let go of it by then.
TRIM_S = 3.0
# How long the end of a session waits for the steps it cancels.
END_S = 60.0


class Worker:
    """Runs partitions on this task's devices.

    Args:
        task: "/job:J/replica:0/task:N".
        transport: reaches other tasks; None where there are none.
        collectives: the groups that devices of this task are in; by itself those of a task without others.
    """

    def __init__(
        self,
        task: str,
        devices: Sequence[Device],
        transport: Transport | None = None,
        collectives: Collectives | None = None,
    ) -> None:
        self.task = task
        self.collectives = collectives or Collectives(task)
        self.devices = list(devices)
        self.steps_run = 0
        self._by_name = {d.name: d for d in devices}
        self._transport = transport
        self._lock = threading.Lock()
        self._sessions: dict[str, WorkerSession] = {}
        self._steps: dict[int, Step] = {}
        self._ended: OrderedDict[int, None] = OrderedDict()
        self._handles = itertools.count(1)
        self._job_resources: dict[str, dict[str, ResourceManager]] = {}
        self._ended_jobs: OrderedDict[str, None] = OrderedDict()
        self._partitions: dict[int, Partition] = {}
        self._routes = Routes(task)

    # Sessions ---------------------------------------------------------------------------------------------------------

    def create_session(self, handle: str, isolate: bool, master: tuple[str, int], job: str = "") -> WorkerSession:
        """Make a session known here.

        Args:
            master: the task, and life, that runs it.
            job: whose named state it shares; "" for that of all without a job.

        Raises:
            AbortedError: the job has ended.
        """
        with self._lock:
            if job in self._ended_jobs:
                raise AbortedError(f"Job {job} has ended; its state in {self.task} is gone")
            if isolate:
                resources = self._new_resources()
            elif job:
                found = self._job_resources.get(job)
                resources = found if found is not None else self._job_resources.setdefault(job, self._new_resources())
            else:
                resources = {d.name: d.resources for d in self.devices}
            groups = SessionCollectives(self.collectives, handle, job, master[0])
            return self._sessions.setdefault(handle, WorkerSession(handle, resources, groups, isolate, master, job))

    def _new_resources(self) -> dict[str, ResourceManager]:
        return {d.name: ResourceManager(d.resources.default_container) for d in self.devices}

    def end_job(self, job: str) -> None:
        """Forget a job's sessions and close its named state. It cannot come back: what is late is refused."""
        with self._lock:
            self._ended_jobs[job] = None
            if len(self._ended_jobs) > _REMEMBERED:
                self._ended_jobs.popitem(last=False)
            sessions = [s.handle for s in self._sessions.values() if s.job == job]
            resources = self._job_resources.pop(job, {})
        for handle in sessions:
            self.delete_session(handle, CancelledError(f"Job {job} has ended"), END_S)
        for manager in resources.values():
            manager.clear()
        DEADLINES.after(TRIM_S, _trim_soon)

    def delete_session(self, handle: str, reason: OpError, wait_s: float = 0.0) -> None:
        """Forget a session and close what was its own; unknown ones are fine.

        Args:
            reason: why what still runs is cancelled.
            wait_s: how long to wait for that to end.
        """
        with self._lock:
            session = self._sessions.pop(handle, None)
        if session is None:
            return
        session.close(reason)
        self.collectives.end_session(handle)
        session.idle.wait(wait_s)
        for number, partition in list(session.partitions.items()):
            self._partitions.pop(number, None)
            for executor in partition.executors:
                executor.retire()
        session.partitions.clear()
        session.kernels.clear()
        if session.isolated:
            for manager in session.resources.values():
                manager.clear()
        DEADLINES.after(TRIM_S, _trim_soon)

    def delete_sessions_of(self, master: str, before_life: int) -> None:
        """Forget sessions whose master died: those of its lives below `before_life`."""
        with self._lock:
            gone = [s.handle for s in self._sessions.values() if s.master[0] == master and s.master[1] < before_life]
        for handle in gone:
            self.delete_session(handle, CancelledError(f"The session's master, {master}, is gone"))

    def session(self, handle: str) -> WorkerSession:
        """Find the session of a handle.

        Raises:
            AbortedError: it is not known, as after a restart of this task.
        """
        found = self._sessions.get(handle)
        if found is None:
            raise AbortedError(
                f'Session handle is not found: {handle}. Possibly this worker ("{self.task}") just restarted.'
            )
        return found

    def clear_containers(self, containers: Sequence[str], job: str = "") -> None:
        """Close and remove named state of all devices, or a job's: of these containers, or of the default ones."""
        with self._lock:
            managers = list(self._job_resources.get(job, {}).values()) if job else [d.resources for d in self.devices]
        for manager in managers:
            for container in containers or ("",):
                manager.clear(container)

    # Partitions -------------------------------------------------------------------------------------------------------

    def register(self, session_handle: str, graph: NodeGraph, partial: bool = False, graph_key: int = 0) -> Partition:
        """Split a task's partition by device and plan each part.

        Args:
            graph_key: of the whole graph, where it computes in groups (`collective/step_ids.py`).

        Raises:
            AbortedError: no such session. OpError: a node cannot run here.
        """
        session = self.session(session_handle)
        devices = {node.device for node in graph}
        if len(devices) == 1 and "/device:CPU:" in (only := next(iter(devices))):
            graphs = {only: graph}
        else:
            graphs = split_by_device(graph, {name: d.incarnation for name, d in self._by_name.items()})
        executors = []
        for name, part in graphs.items():
            split_collectives(part)
            device = self._by_name.get(name)
            if device is None:
                raise InvalidArgumentError(f"A node is assigned to {name}, which {self.task} does not have")
            part.library = graph.library
            if device.device_type == "CPU" and not any(PLAIN_PLAN in node.raw_attrs for node in part):
                share_products(part)
            executors.append(
                Executor(part, device, session.resources[name], session.kernels, part.library, partial=partial)
            )
        groups = session.collectives.of_graph(graph_key) if graph_key else session.collectives
        peers = self._peers_of(graph)
        partition = Partition(next(self._handles), executors, list(graphs.values()), peers, session, groups)
        session.partitions[partition.handle] = self._partitions[partition.handle] = partition
        return partition

    def deregister(self, session_handle: str, handle: int) -> None:
        found = self._sessions.get(session_handle)
        if found is not None:
            found.partitions.pop(handle, None)
            self._partitions.pop(handle, None)

    def partition(self, handle: int) -> Partition:
        """Find a registered partition.

        Raises:
            AbortedError: its session is not known any more, or it was deregistered.
        """
        partition = self._partitions.get(handle)
        if partition is None:
            raise AbortedError(f"Graph handle is not found: {handle}. Possibly its session was closed.")
        return partition

    def _peers_of(self, graph: NodeGraph) -> frozenset[str]:
        out = set()
        for node in graph:
            if (node.op in SENDS or node.op in RECVS) and not is_client_terminated(node):
                out.add(task_of_device(node.text_attr("send_device")))
                out.add(task_of_device(node.text_attr("recv_device")))
        out.discard(self.task)
        return frozenset(out)

    # Steps ------------------------------------------------------------------------------------------------------------

    def step(self, step_id: int) -> Step | None:
        """Find the step of that id, made at its first mention; None when it has ended."""
        found = self._steps.get(step_id)
        if found is not None:
            return found
        with self._lock:
            if step_id in self._ended:
                return None
            found = self._steps.get(step_id)
            if found is None:
                found = self._steps[step_id] = Step(step_id, self._routes, self._transport, time.monotonic())
            return found

    def begin(self, step_id: int) -> Step:
        """Find a step like `step`, for those about to run something in it.

        Raises:
            AbortedError: the step has ended.
        """
        step = self.step(step_id)
        if step is None:
            raise AbortedError(f"Step {step_id} has ended already")
        return step

    def run(
        self,
        part: Part,
        step: Step,
        values: Sequence[Any] = (),
        trace: StepTrace | None = None,
        last: tuple[str, Message] | None = None,
    ) -> tuple[list[Any], bool]:
        """Run a part in a step; see `Part.run`."""
        try:
            return part.run(step, values, trace, last)
        finally:
            self.steps_run += 1

    def resources(self) -> list[ResourceManager]:
        """List whatever holds named state here: of devices, jobs and sessions apart."""
        with self._lock:
            managers = [device.resources for device in self.devices]
            managers += [manager for held in self._job_resources.values() for manager in held.values()]
            managers += [manager for s in self._sessions.values() if s.isolated for manager in s.resources.values()]
        return managers

    def cancel(self, step_id: int, reason: OpError | None = None) -> None:
        """Make a step's runs in this task end soon, with `reason`; nothing when it runs nothing here."""
        step = self._steps.get(step_id)
        if step is not None:
            step.token.cancel(reason or CancelledError("Step was cancelled", derived=True))

    def finish(self, step: Step, partition: Partition | None) -> None:
        """Forget a step of which this task's part succeeded."""
        if partition is None or partition.is_light:
            # It has received all that was for it, so nothing of the step is still on its way.
            self._steps.pop(step.step_id, None)
            step.finish()
        else:
            self.cleanup(step.step_id)

    def cleanup(self, step_id: int) -> None:
        """Drop a step: what it still holds, and what still arrives for it. Runs of it still going are cancelled."""
        with self._lock:
            step = self._steps.pop(step_id, None)
            self._ended[step_id] = None
            if len(self._ended) > _REMEMBERED:
                self._ended.popitem(last=False)
        if step is not None:
            step.cleanup()

    def receive(self, frame: Frame) -> None:
        """Take a tensor another task pushed."""
        if frame.step & GROUP_BIT:
            self.collectives.receive(frame)
            return
        step = self.step(frame.step)
        if step is not None:
            step.table.send(frame.key, frame.value, frame.dead)

    def peer_lost(self, task: str, error: OpError) -> None:
        """Fail steps that need another task's life which is gone."""
        self.collectives.peer_lost(task, error)
        for step in list(self._steps.values()):
            if task in step.peers:
                step.token.cancel(error)

    def drop_orphans(self) -> None:
        """Forget steps that got tensors but were never started, so that a dead master leaves nothing behind."""
        limit = time.monotonic() - ORPHAN_S
        self.collectives.drop_orphans(limit)
        for step_id, step in list(self._steps.items()):
            if not step.is_begun and not step.peers and step.created < limit:
                self.cleanup(step_id)

    @property
    def open_steps(self) -> int:
        return len(self._steps)

    @property
    def open_sessions(self) -> int:
        return len(self._sessions)

    def cancel_all(self, reason: OpError) -> None:
        for step in list(self._steps.values()):
            step.token.cancel(reason)


def _trim_soon() -> None:
    submit(_trim)


def _trim() -> None:
    try:
        shared_memory.trim()
        kept_memory.trim()
    except OSError as e:
        log.warning("shared memory stays with this process: %s", e)


def partition_graphs(partition: Partition) -> list[graph_pb2.GraphDef]:
    return [g.to_graph_def() for g in partition.graphs]
