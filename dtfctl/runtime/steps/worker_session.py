"""A session's share in a task, and the partitions registered for it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from functools import cached_property

from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.executor.kernel_cache import KernelCache
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import FailedPreconditionError, OpError, UnavailableError
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.collective_request import CollectiveExchange
from dtfctl.runtime.rendezvous.local import LocalRendezvous
from dtfctl.runtime.steps.part import Part

# A partition that computes for less than this (s) before it waits or ends runs where its start was read, without a hop
# to another thread.
LIGHT_S = 0.0005
_APPLIES = ("Apply", "ResourceApply", "SparseApply", "ResourceSparseApply")


@dataclass(eq=False)
class Partition:
    """A registered partition: an executor a device.

    Attributes:
        peers: other tasks its sends and receives go to or come from.
        graphs: what each executor runs, for RunMetadata.
        collectives: the groups that its devices are in.
        busy_s: how long a run computes lately, on average between two times it waits; None before the first run.
        is_light: a run waits for nothing but receives and computes next to nothing before the next of them.
    """

    handle: int
    executors: list[Executor]
    graphs: list[NodeGraph]
    peers: frozenset[str]
    session: WorkerSession
    collectives: CollectiveExchange
    busy_s: float | None = None
    is_light: bool = False

    @cached_property
    def updates(self) -> bool:
        """Whether a run applies gradients to variables, rather than to accumulators."""
        return any(node.op.startswith(_APPLIES) and "Accum" not in node.op for graph in self.graphs for node in graph)

    @cached_property
    def feeds_others(self) -> bool:
        """Whether a run fills a queue: it works ahead of the steps that empty it, and nobody waits for it."""
        return any(node.op.startswith("QueueEnqueue") for graph in self.graphs for node in graph)

    @cached_property
    def unfed(self) -> Part:
        """The part as those run it that feed and fetch nothing here by hand.

        Raises:
            InvalidArgumentError: it is fed or fetched from.
        """
        return Part(self)

    def ran(self, taken_s: float, table: LocalRendezvous) -> None:
        """Take note of how long a run has taken, and of what it has waited for."""
        # What it delays, with its sends held back, it delays until it waits.
        busy_s = (taken_s - table.waited_s) / (table.waits + 1)
        before = self.busy_s
        if before is not None:
            busy_s = before + (busy_s - before) * (0.5 if busy_s < before else 0.25)
        self.busy_s = busy_s
        self.is_light = busy_s < LIGHT_S and len(self.executors) == 1 and self.executors[0].runs_in_line


def closed_by(reason: OpError | None) -> OpError:
    """Make what steps of a session that was closed fail with. Those of a task that stops may be tried at the next."""
    return reason if isinstance(reason, UnavailableError) else FailedPreconditionError("Session is closed.")


@dataclass(eq=False)
class WorkerSession:
    """A session's share in this task.

    Attributes:
        resources: by device name: its own if isolated, else its job's, and without a job the devices'.
        collectives: the groups that its devices here are in.
        running: what cancels the steps that clients run here themselves. A step looks at `closed` after it has added
            itself; who closes looks here afterwards.
        closed: what steps that begin are refused with; idle: set once nothing of the closed session runs any more.
    """

    handle: str
    resources: dict[str, ResourceManager]
    collectives: CollectiveExchange
    isolated: bool
    master: tuple[str, int]
    job: str = ""
    kernels: KernelCache = field(default_factory=KernelCache)
    partitions: dict[int, Partition] = field(default_factory=dict)
    running: set[CancellationToken] = field(default_factory=set)
    closed: OpError | None = None
    idle: threading.Event = field(default_factory=threading.Event)

    def enter(self, token: CancellationToken) -> None:
        """Begin a client's step.

        Raises:
            FailedPreconditionError: the session is closed. UnavailableError: the task is stopping.
        """
        self.running.add(token)
        if self.closed is not None:
            self.leave(token)
            raise type(self.closed)(self.closed.message)

    def leave(self, token: CancellationToken) -> None:
        self.running.discard(token)
        if self.closed is not None and not self.running:
            self.idle.set()

    def close(self, reason: OpError) -> None:
        """Cancel what clients run here."""
        self.closed = closed_by(reason)
        for token in list(self.running):
            token.cancel(reason)
        if not self.running:
            self.idle.set()
