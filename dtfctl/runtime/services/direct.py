"""The short way through a step that is one plan on one device of this task: no table, no locks, nothing made anew.

Everything a step needs besides its values is kept between steps and used by one step at a time. A step that failed or
was cancelled takes what it used with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.executor.keys import DEAD
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import (
    InternalError,
    OpError,
)
from dtfctl.runtime.framework.resource_manager import ResourceManager
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.rendezvous.local import LocalRendezvous
from dtfctl.runtime.steps import recording
from dtfctl.runtime.steps.abandon import LONG_S, apart
from dtfctl.runtime.steps.part import ended_with
from dtfctl.runtime.steps.reports import dead_fetch
from dtfctl.runtime.steps.tally import STEPS

if TYPE_CHECKING:
    from dtfctl.runtime.services.compiled_step import CompiledStep
    from dtfctl.runtime.services.master_session import MasterSession


class DirectStep:
    """Runs a compiled step again and again; from any thread, also at the same time.

    Args:
        feeds, fetches: in the order of the values of `__call__`.
    """

    __slots__ = ("_args", "_compiled", "_executor", "_fetches", "_idle", "_results", "_run", "_running", "_session")

    def __init__(
        self,
        session: MasterSession,
        compiled: CompiledStep,
        executor: Executor,
        feeds: Sequence[str],
        fetches: Sequence[str],
    ) -> None:
        self._session = session
        self._compiled = compiled
        self._executor = executor
        self._run = executor.run_direct
        self._running = session.running
        self._idle: list[StepContext] = []
        self._fetches = list(fetches)
        # Where the plan's arguments and results are in the caller's lists; None where the orders agree.
        ends = executor.ends
        args = [list(feeds).index(name) for name in ends.feeds]
        self._args = None if args == list(range(len(feeds))) else args
        results = [ends.fetches[name] for name in fetches]
        self._results = None if results == list(range(len(ends.fetches))) else results

    def __call__(self, values: list[Any], outer: CancellationToken | None = None) -> list[Any]:
        """Run a step; give the fetched values.

        Args:
            outer: cancels the step from outside, as when the client is gone. Whoever gives it does not wait for what
                is told to end.

        Raises:
            OpError: the step failed. FailedPreconditionError: the session is closed.
        """
        compiled = self._compiled
        if compiled.is_long and outer is None:
            outside = CancellationToken()
            return apart(lambda: self(values, outside), outside)
        try:
            step = self._idle.pop()
        except IndexError:
            step = self._new_step()
        executor, session, token = self._executor, self._session, step.cancellation
        results = [DEAD] * len(executor.ends.fetches)
        running = self._running
        session.last_used = started = time.monotonic()
        running.add(outer or token)
        withdraw = outer.on_cancel(lambda: cancel_as(token, outer)) if outer is not None else None
        recorder, local = recording.ACTIVE, compiled.local
        if recorder is not None and local is not None:
            # The context is one of many steps.
            number = session.new_step_id()
            if recorder.takes(number):
                step.trace = recorder.trace_of(local, number)
            else:
                recorder = None
        try:
            session.check_open()
            self._run(step, values if self._args is None else [values[i] for i in self._args], results)
        except BaseException as e:
            self._failed(step, e)
            raise self._reported(step, e) from e.__cause__
        finally:
            if withdraw is not None:
                withdraw()
            running.discard(outer or token)
            if session.is_closed:
                session.step_ended()
        taken = time.monotonic() - started
        if recorder is not None and local is not None:
            recorder.ended(local, number, taken, step.trace)
            step.trace = None
        compiled.is_long = taken > LONG_S
        compiled.runs += 1
        session.local.worker.steps_run += 1
        if local is None or not local.feeds_others:
            STEPS.add(taken)
        if not step.step_resources.is_empty:
            step.step_resources.clear()
        if token.reason is not None:
            raise session.reported(token.reason, token)
        self._idle.append(step)
        if self._results is not None:
            results = [results[i] for i in self._results]
        for value in results:
            if value is DEAD:
                raise dead_fetch(self._fetches[next(i for i, v in enumerate(results) if v is DEAD)], self._fetches)
        return results

    def _new_step(self) -> StepContext:
        session, executor = self._session, self._executor
        partition = self._compiled.local
        assert partition is not None
        return StepContext(
            session.new_step_id(),
            executor.device,
            partition.session.resources[executor.device.name],
            ResourceManager(),
            CancellationToken(),
            LocalRendezvous(),
            executor.functions,
            session_handle=session.handle,
            collectives=partition.collectives,
            feeds_others=partition.feeds_others,
        )

    def _failed(self, step: StepContext, error: BaseException) -> None:
        """End what the step may have left running, and drop what it holds."""
        if isinstance(error, OpError):
            ended_with(error, step.cancellation)
        step.step_resources.clear()

    def _reported(self, step: StepContext, error: BaseException) -> BaseException:
        if not isinstance(error, OpError):
            if not isinstance(error, Exception):
                return error
            wrapped = InternalError(f"{type(error).__name__}: {error}")
            wrapped.__cause__ = error
            return wrapped
        return self._session.reported(ended_with(error, step.cancellation), step.cancellation)


def cancel_as(token: CancellationToken, outer: CancellationToken) -> None:
    """Cancel for the reason of another token."""
    token.cancel(outer.reason)
