"""One step's state in one task, and how it ends."""

from __future__ import annotations

from collections.abc import Callable

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.rendezvous.local import LocalRendezvous
from dtfctl.runtime.rendezvous.routing import Routes, RoutingRendezvous
from dtfctl.runtime.rendezvous.transports.base import Transport
from dtfctl.runtime.steps import recording
from dtfctl.runtime.steps.abandon import when_late
from dtfctl.runtime.steps.grace import ENDED


class Step:
    """A step as a task sees it, from its first frame or run to its cleanup.

    Attributes:
        table: where its tensors meet in this task.
        rendezvous: what kernels use: the table itself in a lone task, with routes to the others in a cluster.
        token: cancelled when the step fails or must stop; aborts the table.
        resources: what ends with the step (TensorArrays, stacks).
        is_begun: something of it runs here, or has.
        peers: tasks this step cannot finish without; grows as partitions start.
        late: called when its part here was told to end and has not in time, by whoever answers for it.
    """

    __slots__ = ("created", "is_begun", "late", "peers", "rendezvous", "resources", "step_id", "table", "token")

    def __init__(self, step_id: int, routes: Routes, transport: Transport | None, created: float = 0.0) -> None:
        self.step_id = step_id
        self.table: LocalRendezvous
        self.rendezvous: LocalRendezvous | RoutingRendezvous
        recorder = recording.ACTIVE
        if recorder is not None and recorder.takes(step_id):
            self.table, self.rendezvous = recording.rendezvous_of(recorder, step_id, routes, transport)
        else:
            self.table = table = LocalRendezvous()
            self.rendezvous = table if transport is None else RoutingRendezvous(table, step_id, routes, transport)
        self.token = CancellationToken(self._abort)
        self.resources = ResourceManager()
        self.peers: set[str] = set()
        self.is_begun = False
        self.created = created
        self.late: Callable[[], None] | None = None

    def _abort(self) -> None:
        self.table.abort(self.token.reason)
        if self.late is not None:
            when_late(self.token, self.late)

    def finish(self) -> None:
        """Drop what a step that succeeded still holds; nothing of it runs any more."""
        if not self.resources.is_empty:
            self.resources.clear()

    def cleanup(self) -> None:
        """End whatever still runs and drop everything the step still holds."""
        self.token.cancel(ENDED)
        if not self.resources.is_empty:
            self.resources.clear()
