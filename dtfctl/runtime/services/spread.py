"""The short way through a plain step over several tasks: a RUN to each, the own part by hand, a DONE from each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.executor.keys import DEAD
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import FailedPreconditionError, OpError
from dtfctl.runtime.services.abandon import LONG_S, apart
from dtfctl.runtime.services.compiled_step import CompiledStep, check_feeds
from dtfctl.runtime.services.direct import cancel_as, dead_fetch
from dtfctl.runtime.services.step_run import StepRun

if TYPE_CHECKING:
    from dtfctl.runtime.services.master_session import MasterSession


class SpreadStep:
    """Runs a compiled step again and again; from any thread, also at the same time.

    Args:
        executor: of the part in the master's own task, None where it has none.
        feeds, fetches: in the order of the values of `__call__`.
    """

    def __init__(
        self,
        session: MasterSession,
        compiled: CompiledStep,
        executor: Executor | None,
        feeds: Sequence[str],
        fetches: Sequence[str],
    ) -> None:
        self._session = session
        self._compiled = compiled
        self._worker = session.local.worker
        self._executor = executor
        self._feeds, self._fetches = list(feeds), list(fetches)
        ends = executor.ends if executor is not None else None
        self._args = [self._feeds.index(name) for name in ends.feeds] if ends is not None else []
        self._results = [ends.fetches[name] for name in fetches] if ends is not None else []

    @staticmethod
    def of(
        session: MasterSession, compiled: CompiledStep, feeds: Sequence[str], fetches: Sequence[str]
    ) -> SpreadStep | None:
        """The short way of a compiled step, if it has this one: the own part, if any, must be one plan on the host."""
        executor = None
        if compiled.local is not None:
            if len(compiled.local.executors) != 1:
                return None
            executor = compiled.local.executors[0]
            if (
                executor.is_gpu
                or executor.ends.feeds.keys() != set(feeds)
                or not executor.ends.fetches.keys() >= set(fetches)
            ):
                return None
        elif feeds or fetches:
            return None
        return SpreadStep(session, compiled, executor, feeds, fetches)

    def __call__(self, values: list[Any], outer: CancellationToken | None = None) -> list[Any]:
        """The fetched values.

        Args:
            outer: cancels the step from outside, as when the client is gone. Whoever gives it does not wait for what
                is told to end.

        Raises:
            OpError: the step failed. FailedPreconditionError: the session is closed.
        """
        session, worker = self._session, self._worker
        if self._compiled.is_long and outer is None:
            outside = CancellationToken()
            return apart(lambda: self(values, outside), outside)
        session.last_used = started = time.monotonic()
        check_feeds(zip(self._feeds, values), self._compiled.feed_types)
        step_id = session.new_step_id()
        step = worker.begin(step_id)
        token, running, runs = step.token, session.direct_running, session.step_runs
        running.add(outer or token)
        withdraw = outer.on_cancel(lambda: cancel_as(token, outer)) if outer is not None else None
        results: list[Any] = self._executor.results() if self._executor is not None else []

        def here() -> None:
            assert self._compiled.local is not None
            try:
                worker.run_part(self._compiled.local, step, [values[i] for i in self._args], results)
            except OpError as e:
                raise session.reported(e, token) from e.__cause__

        is_whole = False
        try:
            if session.is_closed:
                raise FailedPreconditionError("Session is closed.")
            run = runs[step_id] = StepRun(step, session.handle, self._compiled.parts, self._compiled.remote)
            run.execute(here)
            is_whole = True
        finally:
            if withdraw is not None:
                withdraw()
            runs.pop(step_id, None)
            running.discard(outer or token)
            if session.is_closed:
                session.direct_ended()
            if is_whole:
                worker.finish(step, self._compiled.local)
            else:
                worker.cleanup(step_id)
        self._compiled.is_long = time.monotonic() - started > LONG_S
        self._compiled.runs += 1
        fetched = [results[i] for i in self._results]
        for i, value in enumerate(fetched):
            if value is DEAD:
                raise dead_fetch(self._fetches[i], self._fetches)
        return fetched
