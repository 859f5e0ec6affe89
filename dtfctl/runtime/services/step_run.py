"""A step over several tasks, as the master follows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from dtfctl.protocol import worker_pb2
from dtfctl.runtime.framework.errors import OpError, UnavailableError, error_from_code
from dtfctl.runtime.rendezvous.frames import Kind
from dtfctl.runtime.rendezvous.reactor import REACTOR, Slot
from dtfctl.runtime.services.abandon import grace_s
from dtfctl.runtime.services.deadlines import DEADLINES
from dtfctl.runtime.services.step import Step, first_error
from dtfctl.runtime.services.tasks import RemoteTask


class StepRun:
    """Collects how each remote task's part ended; the first real error cancels all other parts.

    Args:
        step: the step in the master's own task; its token is the whole step's.
        tasks: the other tasks with a part in it, by name.
    """

    def __init__(self, step: Step, tasks: Mapping[str, RemoteTask]) -> None:
        self.step = step
        self.errors: list[OpError] = []
        self.reports: list[worker_pb2.StepReport] = []
        self._tasks = tasks
        self._lock = threading.Lock()
        self._pending = set(self._tasks)
        self._ended = Slot()
        self._withdraw_bound: Callable[[], None] | None = None
        if not tasks:
            self._ended.set()
        step.token.on_cancel(self._cancelled)

    def _cancelled(self) -> None:
        with self._lock:
            tasks = [self._tasks[t] for t in self._pending]
            if tasks:
                grace = grace_s(self.step.token.reason)
                self._withdraw_bound = DEADLINES.after(grace, lambda: self._give_up(grace))
        for task in tasks:
            task.send(Kind.CANCEL, self.step.step_id)

    def _give_up(self, grace: float) -> None:
        """The step was cancelled long ago: go on without those that have not said that their part has ended."""
        with self._lock:
            late = sorted(self._pending)
            if not late:
                return
            self._pending.clear()
            for task in late:
                self.errors.append(
                    UnavailableError(f"{task} did not end its part within {grace:g} s of cancelling", derived=True)
                )
        self._ended.set()

    def done(self, task: str, report: worker_pb2.StepReport | None) -> None:
        """A task's part has ended."""
        error = None
        if report is not None:
            if report.code:
                message = f"From {task}:\n{report.message}"
                error = error_from_code(report.code, message, derived=report.derived)
            else:
                self.reports.append(report)
        self._end(task, error)

    def lost(self, task: str, error: OpError) -> None:
        """A task cannot answer any more."""
        self._end(task, error_from_code(error.error_code, f"From {task}:\n{error.message}"))

    def failed_here(self, error: OpError) -> None:
        """The part in the master's own task failed."""
        with self._lock:
            self.errors.append(error)
        if not error.derived:
            self.step.token.cancel(error)

    def _end(self, task: str, error: OpError | None) -> None:
        with self._lock:
            if task not in self._pending:
                return
            self._pending.discard(task)
            last = not self._pending
            if error is not None:
                self.errors.append(error)
        if error is not None and not error.derived:
            self.step.token.cancel(error)
        if last:
            self._ended.set()

    def wait(self) -> None:
        """Until all remote parts have ended; once cancelled, at most its grace longer."""
        # A thread that computes for long does not come back soon to serve the links, so it leaves that to their own.
        REACTOR.wait(self._ended, self.step.table.leads)
        if self._withdraw_bound is not None:
            self._withdraw_bound()

    def error(self) -> OpError | None:
        """What to report of the step: why it was cancelled, if that came first, else the first real error."""
        reason = self.step.token.reason
        found = first_error(self.errors)
        if reason is not None and (found is None or found.derived) and not reason.derived:
            return reason
        return found if found is not None else reason
