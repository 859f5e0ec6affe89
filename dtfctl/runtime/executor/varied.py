"""Plans for each of the shapes that a partition gets from outside: the last batch, the lengths of sentences, requests
that were put together.
"""

from __future__ import annotations

import copy
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dtfctl.runtime.executor.adaptive import Adaptive
from dtfctl.runtime.executor.incoming import Incoming, Shapes
from dtfctl.runtime.executor.observation import Observation
from dtfctl.runtime.executor.plan import Plan
from dtfctl.runtime.kernels.context import StepContext

# Plans that are kept, and nodes in all of them.
_MOST_PLANS, _MOST_NODES = 64, 100_000
# What making a plan takes (s), before one was made, and how often steps without it must have taken that.
_PLANNING_S, _WORTH = 0.02, 1.0
# Steps after which what was before counts half, and shapes whose steps are counted.
_PERIOD, _MOST_COUNTED = 4096, 4096

Shape: TypeAlias = Callable[[Observation, Shapes], Plan]


class Varied:
    """A plan: the one for the shapes of what a step gets from outside, and the one for any where there is none.

    Shapes get a plan once the steps that had none have taken as long as it takes to make one; where there is no room
    for it, once they come twice as often as those that have one.

    Args:
        interpreter: makes a plan that runs the same nodes and honours `step.trace`.
        incoming: tells the shapes of what a step gets from outside.
        shape: makes the plan for shapes like those of the observed step, and of what it got from outside.
        first: the plan there is.
        nodes: how many a plan has.
    """

    engine = "shaped"
    runs_in_line = True

    def __init__(
        self,
        general: Plan,
        interpreter: Callable[[], Plan],
        incoming: Incoming,
        shape: Shape,
        first: Adaptive,
        nodes: int,
    ) -> None:
        self.general = general
        self._incoming = incoming
        self._interpreter = interpreter
        self._shape = shape
        self._plans: dict[Shapes, Plan] = {}
        self._most = max(min(_MOST_PLANS, _MOST_NODES // max(nodes, 1)), 1)
        self._uses: Counter[Shapes] = Counter()
        self._steps = 0
        # Seconds that steps without a plan have taken, and that making one takes.
        self._spent: defaultdict[Shapes, float] = defaultdict(float)
        self._planning_s = _PLANNING_S
        self._lock = threading.Lock()
        self._add(first.shapes, first)

    @property
    def shapes(self) -> list[Shapes]:
        """List those that have a plan of their own."""
        return [shapes for shapes, plan in self._plans.items() if plan is not self.general]

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        shapes = self._incoming.shapes(step, args)
        self._uses[shapes] += 1
        plan = self._plans.get(shapes)
        if plan is not None:
            plan.run(step, args, results)
            if isinstance(plan, Adaptive) and plan.is_unsteady:
                self._plans[shapes] = self.general
        elif step.trace is not None or not self._lock.acquire(blocking=False):
            self.general.run(step, args, results)
        else:
            try:
                self._meet(shapes, step, args, results)
            finally:
                self._lock.release()

    def _meet(self, shapes: Shapes, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        """Run a step of shapes that have no plan, and make one if that pays."""
        self._age()
        began = time.perf_counter()
        if self._spent[shapes] < self._planning_s * _WORTH or not self._makes_room(shapes):
            self.general.run(step, args, results)
            self._spent[shapes] += time.perf_counter() - began
            return
        observed, seen = copy.copy(step), Observation()
        observed.trace = seen
        self._interpreter().run(observed, args, results)
        ran = time.perf_counter()
        self._add(shapes, self._shape(seen, shapes))
        del self._spent[shapes]
        self._planning_s += (time.perf_counter() - ran - self._planning_s) / 4

    def _makes_room(self, shapes: Shapes) -> bool:
        """Tell whether there is room for a plan, or give up one that is used less."""
        if len(self._plans) < self._most:
            return True
        least = min(self._plans, key=lambda one: self._uses[one])
        if self._uses[shapes] <= 2 * self._uses[least] + 2:
            return False
        del self._plans[least]
        return True

    def _age(self) -> None:
        self._steps += 1
        if self._steps < _PERIOD and len(self._uses) < _MOST_COUNTED:
            return
        self._steps = 0
        # Others may be counting meanwhile; what they count is lost.
        self._uses = Counter({one: uses // 2 for one, uses in list(self._uses.items()) if uses > 1})
        self._spent = defaultdict(float, {one: spent for one, spent in self._spent.items() if one in self._uses})

    def _add(self, shapes: Shapes, plan: Plan) -> None:
        if isinstance(plan, Adaptive):
            plan.gave_up = _is_seen_to
        self._plans[shapes] = plan


def _is_seen_to() -> None:
    """Do nothing: a plan that refers to the table of plans would be kept by it."""
