"""Groups as kernels use them: what they ask for begins here, and ends with their step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from dtfctl.runtime.collective.communicator import Computation, Origin
from dtfctl.runtime.collective.members import Collectives, Key
from dtfctl.runtime.framework.errors import DeadlineExceededError
from dtfctl.runtime.kernels.collective_request import CollectiveRequest
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.steps.deadlines import DEADLINES


class SessionCollectives:
    """Groups as the kernels of one session use them (kernels.collective_request.CollectiveExchange).

    Args:
        master: the task that runs the session's steps.
        graph_key: of the graph whose kernels use it; see step_ids.py.
    """

    def __init__(self, collectives: Collectives, session: str, job: str, master: str, graph_key: int = 0) -> None:
        self._collectives = collectives
        self._session = session
        self._job = job
        self._master = master
        self._graph_key = graph_key

    def of_graph(self, graph_key: int) -> SessionCollectives:
        return SessionCollectives(self._collectives, self._session, self._job, self._master, graph_key)

    def begin(
        self, request: CollectiveRequest, step: StepContext, done: Callable[[Any], None], *, outlives_kernel: bool
    ) -> None:
        token, device = step.cancellation, step.device.name
        if step.frame != request.frame:
            request = replace(request, frame=step.frame)
        origin = Origin(step.step_id, self._graph_key, self._master)
        computation = Computation(request, token, done, origin)
        key = Key(self._session, device, request.group_key)
        watch = token.on_cancel(partial(self._collectives.step_ended, key, computation))
        if not outlives_kernel:
            computation.withdraw.append(watch)
        if request.timeout_s > 0:
            late = DeadlineExceededError(f"Collective has timed out waiting for other workers: {request.timeout_s:g} s")
            computation.withdraw.append(DEADLINES.after(request.timeout_s, partial(computation.fail, late)))
        self._collectives.begin(self._session, self._job, computation, device)
