"""A signature, ready to be run by its master: what run, callables and calls of clients have in common."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dtfctl.runtime.executor.keys import DEAD
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.services.compiled_step import CompiledStep, StepOptions, check_feeds
from dtfctl.runtime.services.direct import DirectStep
from dtfctl.runtime.steps.abandon import LONG_S, apart
from dtfctl.runtime.steps.part import Part
from dtfctl.runtime.steps.path import PathChoice, StepFacts, StepPath, choose_path
from dtfctl.runtime.steps.reports import dead_fetch
from dtfctl.runtime.steps.step import Step

if TYPE_CHECKING:
    from dtfctl.runtime.services.master_session import MasterSession

PLAIN = StepOptions()


class PreparedStep:
    """Runs a compiled step again and again; from any thread, also at the same time.

    Args:
        feeds, fetches: names of tensors, in the order of values given and got.

    Attributes:
        compiled: what it runs.
        path: how plain steps of it go.
        direct: runs plain steps where their path is DIRECT.
    """

    def __init__(
        self, session: MasterSession, compiled: CompiledStep, feeds: Sequence[str], fetches: Sequence[str]
    ) -> None:
        self.compiled = compiled
        self.direct: DirectStep | None = None
        self._session = session
        self._feeds, self._fetches = list(feeds), list(fetches)
        local = compiled.local
        self._part = Part(local, feeds, fetches) if local is not None else None
        self.path = path_in_master(session, compiled)
        self._path_asked = path_in_master(session, compiled, has_options=True)
        if self.path.path is StepPath.DIRECT:
            assert local is not None
            self.direct = DirectStep(session, compiled, local.executors[0], feeds, fetches)

    def __call__(self, values: list[Any]) -> list[Any]:
        """Run a plain step; see `run`."""
        return self.run(values) if self.direct is None else self.direct(values)

    def run(self, values: Sequence[Any], how: StepOptions = PLAIN) -> list[Any]:
        """Run one step; the fetched values.

        Args:
            values: arrays, one a feed.

        Raises:
            OpError: the step failed. InvalidArgumentError: values do not fit the feeds. FailedPreconditionError: the
                session is closed.
        """
        if len(values) != len(self._feeds):
            raise InvalidArgumentError(f"Expected {len(self._feeds)} feed tensors, but got {len(values)}")
        session, compiled = self._session, self.compiled
        check_feeds(zip(self._feeds, values), compiled.feed_types)
        choice = self.path if how.is_plain else self._path_asked
        if choice.path is StepPath.DIRECT:
            assert self.direct is not None
            return self.direct(list(values), how.cancellation)
        compiled.runs += 1
        if how.metadata is not None and session.is_measured(compiled.runs):
            how = replace(how, wants_costs=True)
        step = session.local.worker.begin(session.new_step_id())
        release = session.attach(step, how)
        if how.is_waited_for and (compiled.is_long or session.timeout_s(how) > 0):
            return apart(lambda: self._run(values, how, step, release), step.token)
        return self._run(values, how, step, release)

    def _run(self, values: Sequence[Any], how: StepOptions, step: Step, release: Callable[[], None]) -> list[Any]:
        compiled, session = self.compiled, self._session
        started, is_over = time.monotonic(), False
        try:
            fetched = session.execute(compiled, step, how, self._part, values)
            is_over = not how.reports
        finally:
            compiled.is_long = time.monotonic() - started > LONG_S
            release()
            if is_over:
                session.local.worker.finish(step, compiled.local)
            else:
                session.local.worker.cleanup(step.step_id)
        for i, value in enumerate(fetched):
            if value is DEAD:
                raise dead_fetch(self._fetches[i], self._fetches)
        return fetched


def path_in_master(session: MasterSession, compiled: CompiledStep, has_options: bool = False) -> PathChoice:
    """Choose how steps of a signature go, once they are in their master."""
    local = compiled.local
    not_one_plan = ""
    if local is None:
        not_one_plan = f"{session.local.task} has no part in it"
    elif len(local.executors) > 1:
        not_one_plan = f"its part in {session.local.task} is on {len(local.executors)} devices"
    elif not local.executors[0].is_self_contained:
        not_one_plan = f"its part in {session.local.task} is on a GPU, or meets others"
    return choose_path(
        StepFacts(
            is_in_process=True,
            has_options=has_options,
            has_timeout=session.config.operation_timeout_in_ms > 0,
            others=list(compiled.remote),
            not_one_plan=not_one_plan,
        )
    )
