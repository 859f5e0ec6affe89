"""Partial runs: one step whose feeds come, and whose fetches are taken, over several calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from dtfctl.errors import Signal
from dtfctl.runtime.compiler.prune import check_partial_fetches
from dtfctl.runtime.framework.errors import InvalidArgumentError, OpError
from dtfctl.runtime.services.compiled_step import CompiledStep, StepOptions, check_feeds
from dtfctl.runtime.services.master_session import MasterSession
from dtfctl.runtime.steps.abandon import wait
from dtfctl.runtime.steps.part import Part
from dtfctl.runtime.steps.reports import dead_fetch
from dtfctl.runtime.steps.threads import submit


class PartialRuns:
    """The partial runs of one session, by handle ("0", "1", ...)."""

    def __init__(self, session: MasterSession) -> None:
        self._session = session

    def setup(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> str:
        """Compile a step whose feeds will come one by one.

        Raises:
            OpError: as MasterSession.run.
        """
        session = self._session
        compiled = session.signatures.get(feeds, fetches, targets, partial=True)
        return session.add_partial_run(_PartialRun(session, compiled, feeds, fetches))

    def run(
        self, handle: str, feeds: Mapping[str, Any], fetches: Sequence[str], how: StepOptions | None = None
    ) -> list[Any]:
        """Feed some more, fetch some more.

        Raises:
            InvalidArgumentError: the handle, a feed or a fetch is not one that is due. OpError: the step failed.
        """
        found = self._session.partial_runs.get(handle)
        if found is None:
            raise InvalidArgumentError("Must run PartialRunSetup before performing partial runs")
        done = False
        try:
            values, done = found.run(feeds, fetches, how or StepOptions())
        except _StepFailed as e:
            done = True
            raise e.error from e.error.__cause__
        finally:
            if done:
                self._session.partial_runs.pop(handle, None)
        return values


class _StepFailed(Signal):
    def __init__(self, error: OpError) -> None:
        super().__init__(error)
        self.error = error


class _PartialRun:
    def __init__(
        self, session: MasterSession, compiled: CompiledStep, feeds: Sequence[str], fetches: Sequence[str]
    ) -> None:
        self._session = session
        self._compiled = compiled
        self._fed = dict.fromkeys(feeds, False)
        self._fetched = dict.fromkeys(fetches, False)
        self._step_id = session.new_step_id()
        self._step = session.local.worker.begin(self._step_id)
        self._part = None if compiled.local is None else Part(compiled.local)
        self._execution: Future[None] | None = None

    def cancel(self, reason: OpError) -> None:
        """End the run because the session closes, and wait for that."""
        self._step.token.cancel(reason)
        self._wait()
        self._session.local.worker.cleanup(self._step_id)

    def run(self, feeds: Mapping[str, Any], fetches: Sequence[str], how: StepOptions) -> tuple[list[Any], bool]:
        """Feed some more; give the values of `fetches`, and whether nothing is left to feed or fetch."""
        self._check(feeds, fetches)
        check_feeds(feeds.items(), self._compiled.feed_types)
        for name in feeds:
            self._fed[name] = True
        for name in fetches:
            self._fetched[name] = True
        last = all(self._fed.values()) and all(self._fetched.values())
        release = self._session.attach(self._step, how)
        try:
            for name, value in feeds.items():
                self._step.table.send(f"client;{name}", value, False)
            if self._execution is None:
                self._execution = submit(self._execute, how)
            values = [self._take(name, fetches) for name in fetches]
            if last and self._wait():
                self._execution.result()
            self._step.token.check()
        except OpError as e:
            raise self._failure(e) from None
        finally:
            release()
        if last:
            self._session.local.worker.cleanup(self._step_id)
        return values, last

    def _execute(self, how: StepOptions) -> None:
        try:
            self._session.execute(self._compiled, self._step, how, self._part)
        except OpError as e:
            self._step.token.cancel(e)
            raise

    def _take(self, name: str, fetches: Sequence[str]) -> Any:
        value, dead = self._step.table.recv(f"client;{name}", self._step.token)
        if dead:
            raise dead_fetch(name, fetches)
        return value

    def _failure(self, error: OpError) -> _StepFailed:
        """End the step; what to report of it."""
        self._step.token.cancel(error)
        if self._execution is not None and error.derived:
            cause = self._execution.exception() if self._wait() else self._step.token.reason
            if isinstance(cause, OpError):
                error = cause
        else:
            self._wait()
        self._session.local.worker.cleanup(self._step_id)
        return _StepFailed(error)

    def _wait(self) -> bool:
        """Wait for the end of the step; False where it was told to end and goes on."""
        return self._execution is None or wait(self._execution, self._step.token)

    def _check(self, feeds: Mapping[str, Any], fetches: Sequence[str]) -> None:
        for name in feeds:
            if name not in self._fed:
                raise InvalidArgumentError(f"The feed {name} was not specified in partial_run_setup.")
            if self._fed[name]:
                raise InvalidArgumentError(f"The feed {name} has already been fed.")
        for name in fetches:
            if name not in self._fetched:
                raise InvalidArgumentError(f"The fetch {name} was not specified in partial_run_setup.")
            if self._fetched[name]:
                raise InvalidArgumentError(f"The fetch {name} has already been fetched.")
        pending = {n for n, fed in self._fed.items() if not fed and n not in feeds}
        fed = [n for n, is_fed in self._fed.items() if is_fed or n in feeds]
        check_partial_fetches(self._session.node_graph, fetches, fed, pending)
