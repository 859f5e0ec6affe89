"""What a job's chief tells of a training that says nothing itself: how far it is, its loss, its graph."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from dtfctl.protocol import config_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.train.hooks.stopping import StopAtStepHook
from dtfctl.runtime.train.hooks.timing import global_step_read
from dtfctl.runtime.train.job_events import own_events
from dtfctl.runtime.train.minimized import losses_of
from dtfctl.runtime.train.progress import ProgressHook, is_told, report
from dtfctl.runtime.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from dtfctl.runtime.train.training_util import get_global_step

EVERY_S = 0.25
TRACED_RUN = 10
"""Which of the runs that train is traced for TensorBoard: the first ones make plans and buffers."""


def job_hooks(hooks: Iterable[SessionRunHook]) -> list[SessionRunHook]:
    """Make what a job's chief is watched by; nothing outside of jobs, or without a global step.

    Args:
        hooks: the program's own. Where one of them reports progress, there is no other report.
    """
    own = list(hooks)
    if not is_told() or get_global_step() is None:
        return []
    reports = any(isinstance(hook, ProgressHook) for hook in own)
    last = next((hook.last_step for hook in own if isinstance(hook, StopAtStepHook)), None)
    return [JobHook(last, reports=not reports)]


class JobHook(SessionRunHook):
    """Reports the global step, and the loss of runs that compute it anyway; writes the graph and one step's times.

    Args:
        total: the last step, where it is known.
        reports: whether progress is reported here.
    """

    def __init__(self, total: int | None, reports: bool) -> None:
        self._total, self._reports = total, reports
        self._due_at = 0.0
        self._trained = 0
        # A run that computes no loss, and the end, tell the newest: a person looks at the newest report alone.
        self._latest: dict[str, float] = {}
        self._computed: dict[tuple[int, ...], dict[str, Any]] = {}
        # What the numbers above are of.
        self._kept: list[Any] = []

    def begin(self) -> None:
        self._graph: Any = context.get_default_graph()
        self._step = global_step_read()
        self._losses = losses_of(self._graph)
        self._events = own_events()

    def after_create_session(self, session: Any, coord: Any) -> None:
        if self._events is not None and not self._trained:
            self._events.graph(self._graph)

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        now = time.monotonic()
        self._now_due = self._reports and now >= self._due_at
        self._traces = False
        losses = self._losses_in(run_context.original_args.fetches)
        if losses:
            self._trained += 1
            self._traces = self._events is not None and self._trained == TRACED_RUN
        if not self._now_due and not self._traces:
            return None
        options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE) if self._traces else None
        return SessionRunArgs({" step": self._step, **losses}, options=options)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        if not self._now_due and not self._traces:
            return
        values = dict(run_values.results)
        step = int(values.pop(" step"))
        if self._now_due:
            self._latest |= {name: float(value) for name, value in values.items()}
            report(step, self._total, **self._latest)
            self._due_at = time.monotonic() + EVERY_S
        if self._traces and self._events is not None:
            self._events.traced(run_values.run_metadata, step)

    def end(self, session: Any) -> None:
        if self._reports:
            report(int(session.run(self._step)), self._total, **self._latest)

    def _losses_in(self, fetches: Any) -> dict[str, Any]:
        """Find the losses that a run computes anyway: others might want to be fed."""
        ops = [op for item in _leaves(fetches) if (op := self._op_of(item)) is not None]
        key = tuple(map(id, ops))
        found = self._computed.get(key)
        if found is None:
            needed = _needed(ops)
            found = {name: loss for name, loss in self._losses.items() if loss.op in needed}
            if len(self._computed) < 100:
                self._computed[key] = found
                self._kept.append(ops)
        return found

    def _op_of(self, item: Any) -> Operation | None:
        try:
            element = self._graph.as_graph_element(item)
        except (TypeError, ValueError, KeyError):
            return None
        return element if isinstance(element, Operation) else element.op


def _leaves(fetches: Any) -> list[Any]:
    found, stack = [], [fetches]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
        else:
            found.append(item)
    return found


def _needed(ops: Iterable[Operation]) -> set[Operation]:
    """Find all that some operations need, themselves among it."""
    found, stack = set(), list(ops)
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack.extend(tensor.op for tensor in op.inputs)
            stack.extend(op.control_inputs)
    return found
