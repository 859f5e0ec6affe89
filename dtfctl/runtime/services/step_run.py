"""A step over several tasks, as its master runs it: what the coordinator says is done over links."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.framework.errors import CancelledError, OpError
from dtfctl.runtime.rendezvous.frames import Kind
from dtfctl.runtime.rendezvous.reactor import REACTOR, Slot
from dtfctl.runtime.services.tasks import RemotePart
from dtfctl.runtime.steps.coordinator import Coordinator, Do, Instructions, Parts
from dtfctl.runtime.steps.deadlines import DEADLINES
from dtfctl.runtime.steps.reports import error_of, located
from dtfctl.runtime.steps.step import Step

log = logging.getLogger(__name__)
# The time to end of a part that was being started when all were told to end, if theirs is over.
_LATE_START_S = 0.3


class StepRun:
    """Drives the coordinator of one step. `execute` is called once, all else from any thread.

    Args:
        step: the step in the master's own task; its token is the whole step's.
        session: the handle of the session it is of.
        parts: of all tasks; the one that is not in `remote`, if any, is the master's own, and the last.
        remote: those in other tasks.
        keeps: see `Coordinator`.
    """

    def __init__(
        self, step: Step, session: str, parts: Parts, remote: Mapping[str, RemotePart], keeps: bool = False
    ) -> None:
        self.step = step
        self._session = session
        self._remote = remote
        self._coordinator = Coordinator(parts, keeps)
        self._lock = threading.Lock()
        self._ended = Slot() if remote else None
        self._withdraw: Callable[[], None] | None = None

    @property
    def reports(self) -> list[worker_pb2.StepReport]:
        """What the other tasks have reported of a step that succeeded, where they were asked to."""
        return [report for report in self._coordinator.results.values() if report is not None]

    def execute(self, here: Callable[[], None]) -> None:
        """Run all parts; returns when all have ended.

        Args:
            here: runs the master's own part.

        Raises:
            OpError: the error to report.
        """
        coordinator, step = self._coordinator, self.step
        step.token.on_cancel(self._cancelled)
        try:
            part = self._happened(coordinator.begin)
            while part:
                remote = self._remote.get(part)
                if remote is None:
                    part = self._happened(coordinator.started, part) or self._run_here(part, here)
                    continue
                step.peers.add(part)
                try:
                    remote.task.start(step.step_id, self._session, remote.start)
                except OpError as e:
                    self.lost(part, e)
                part = self._happened(coordinator.started, part)
                if coordinator.is_ending:
                    self._watch(_LATE_START_S)
            self.wait()
        except BaseException:
            self._happened(coordinator.abandoned, CancelledError("The step was interrupted"))
            raise
        error = coordinator.error
        if error is not None:
            log.debug("step %d of session %s: %s", step.step_id, self._session, coordinator.story())
            raise error

    def _run_here(self, part: str, here: Callable[[], None]) -> str:
        coordinator = self._coordinator
        try:
            here()
        except OpError as e:
            return self._failed(coordinator.failed, part, e)
        return self._happened(coordinator.done, part)

    def wait(self) -> None:
        """Wait until nothing of the step is waited for."""
        if self._ended is not None and not self._ended.is_set:
            # Who computes for long does not come back soon to serve the links, so it leaves that to their own thread.
            REACTOR.wait(self._ended, self.step.table.leads)
        if self._withdraw is not None:
            self._withdraw()

    # What happens -----------------------------------------------------------------------------------------------------

    def done(self, task: str, report: worker_pb2.StepReport | None) -> None:
        """Take in what a task has reported of the end of its part."""
        error = None if report is None else error_of(task, report)
        if error is None:
            self._happened(self._coordinator.done, task, report)
        else:
            self._failed(self._coordinator.failed, task, error)

    def lost(self, task: str, error: OpError) -> None:
        """Go on without a task that cannot answer any more."""
        self._failed(self._coordinator.lost, task, located(task, error))

    def _cancelled(self) -> None:
        reason = self.step.token.reason
        assert reason is not None
        self._happened(self._coordinator.cancelled, reason, time.monotonic())
        self._watch()

    def _failed(self, event: Callable[[str, OpError, float], Instructions], part: str, error: OpError) -> str:
        part = self._happened(event, part, error, time.monotonic())
        if self._coordinator.is_ending:
            self.step.token.cancel(self._coordinator.error)
            self._watch()
        return part

    def _watch(self, at_least_s: float = 0.0) -> None:
        """See to it that a step that is to end does, though not before so long a time."""
        ends_by = self._coordinator.ends_by
        if ends_by is None:
            return
        with self._lock:
            if self._withdraw is None:
                self._withdraw = DEADLINES.after(max(ends_by - time.monotonic(), at_least_s), self._late)

    def _late(self) -> None:
        # What is being started is not given up: when it was, `execute` sees to it.
        self._withdraw = None
        ends_by = self._coordinator.ends_by
        if ends_by is not None:
            self._happened(self._coordinator.tick, max(time.monotonic(), ends_by))

    def _happened(self, event: Callable[..., Instructions], *about: object) -> str:
        """Tell the coordinator, and do what it says. Gives the part that it wants to be run, if any."""
        with self._lock:
            instructions = event(*about)
        to_run = ""
        for do, part in instructions:
            if do is Do.RUN:
                to_run = part
            elif do is Do.FINISHED:
                if self._ended is not None:
                    self._ended.set()
            elif part in self._remote:
                # The own part ends with the step's token, and is forgotten by the thread that runs it.
                kind = Kind.CANCEL if do is Do.CANCEL else Kind.CLEANUP
                self._remote[part].task.send(kind, self.step.step_id)
        return to_run
