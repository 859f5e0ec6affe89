"""Whether running independent nodes at the same time pays, found out by measuring.

A hop to another thread costs tens of microseconds, and a BLAS that uses all cores already leaves nothing to gain. So a
plan starts as straight lines; once warm, one step is timed node by node, and if its critical path is much shorter than
the step, a few steps are run both ways. What was faster stays.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.executor.incoming import Incoming, Shapes
from dtfctl.runtime.executor.observation import Observation
from dtfctl.runtime.executor.plan import Plan
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.structural_ops import RECVS
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.registry import op_promises

# Steps before the one that is timed: first calls import, allocate and compile.
_WARM_UP = 3
_TRIALS = 5
# After so many of each, the parallel plan is given up if it takes so many times as long.
_FEW_TRIALS, _HOPELESS = 2, 1.3
# Shorter steps (ns) are left alone.
_LEAST_STEP = 1_000_000
# A node worth a thread hop (ns).
_HEAVY = 150_000
# The critical path must promise this much, and the trial deliver it.
_LEAST_PROMISE = 1.25
_LEAST_GAIN = 1.1


class Tuner:
    """A plan: runs steps, some of them measured, until it knows which plan is best.

    Args:
        straight: the plan to beat.
        interpreter: makes a plan that runs the same nodes and honours `step.trace`.
        incoming: tells the shapes of what a step gets from outside.
        shape: makes the plan for shapes like those of the observed step, and of what it got from outside.
        parallel: makes the plan that runs the given heavy nodes in threads, None where they are not worth it; None
            where there is one core.
        decide: called once with the chosen plan.
    """

    runs_in_line = False

    def __init__(
        self,
        straight: Plan,
        interpreter: Callable[[], Plan],
        incoming: Incoming,
        shape: Callable[[Observation, Shapes], Plan],
        parallel: Callable[[frozenset[Node]], Plan | None] | None,
        decide: Callable[[Plan], None],
    ) -> None:
        self._straight = straight
        self._make_interpreter = interpreter
        self._incoming = incoming
        self._shape = shape
        self._make_parallel = parallel
        self._decide = decide
        self._lock = threading.Lock()
        self._runs = 0
        self._parallel: Plan | None = None
        self._best = {True: 0, False: 0}

    @property
    def engine(self) -> str:
        return self._straight.engine

    @property
    def general(self) -> Plan:
        return self._straight.general

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        # Steps that overlap, or that somebody else measures, are not measured.
        if step.trace is not None or not self._lock.acquire(blocking=False):
            self._straight.run(step, args, results)
            return
        try:
            self._runs += 1
            if self._runs <= _WARM_UP:
                self._straight.run(step, args, results)
            elif self._parallel is None:
                self._profile(step, args, results)
            else:
                self._try(self._parallel, step, args, results)
        finally:
            self._lock.release()

    def _profile(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        timed, seen = copy.copy(step), Observation()
        timed.trace = seen
        shapes = self._incoming.shapes(step, args)
        self._make_interpreter().run(timed, args, results)
        self._straight = self._shape(seen, shapes)
        heavy = worth_running_beside(seen.spent)
        if heavy and self._make_parallel is not None:
            self._parallel = self._make_parallel(heavy)
        if self._parallel is None:
            self._decide(self._straight)

    def _try(self, parallel: Plan, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        is_parallel = self._runs % 2 == 0
        started = time.monotonic_ns()
        (parallel if is_parallel else self._straight).run(step, args, results)
        spent = time.monotonic_ns() - started
        best = self._best[is_parallel]
        self._best[is_parallel] = min(best or spent, spent)
        trials = self._runs - _WARM_UP - 1
        is_hopeless = trials >= 2 * _FEW_TRIALS and self._best[True] > self._best[False] * _HOPELESS
        if is_hopeless or trials >= 2 * _TRIALS:
            gains = self._best[False] >= self._best[True] * _LEAST_GAIN
            self._decide(parallel if gains else self._straight)


def worth_running_beside(spent: dict[Node, int]) -> frozenset[Node]:
    """Find the heavy nodes, if running them beside each other could shorten the step enough; none otherwise."""
    heavy = frozenset(n for n, t in spent.items() if t >= _HEAVY and n.op not in RECVS)
    total = sum(t for n, t in spent.items() if n.op not in RECVS)
    # Beside one who still has the value from before, an update of rows would have to copy all of it.
    if len(heavy) < 2 or total < _LEAST_STEP or any(op_promises(n.op, "updates_rows") for n in spent):
        return frozenset()
    finished: dict[Node, int] = {}
    # Timings come in running order, so sources are there before their consumers.
    for node, time_spent in spent.items():
        sources = [e.node for e in node.inputs] + node.control_inputs
        start = max((finished.get(s, 0) for s in sources), default=0)
        finished[node] = start + (0 if node.op in RECVS else time_spent)
    critical = max(finished.values())
    return heavy if total >= critical * _LEAST_PROMISE else frozenset()
