"""Plans for each of the shapes that a partition's arguments have: the last batch, the lengths of sentences, requests
that were put together.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from dtfctl.runtime.executor.adaptive import Adaptive, Shapes, shapes_of
from dtfctl.runtime.executor.plan import Plan
from dtfctl.runtime.executor.shaped import Observation
from dtfctl.runtime.kernels.context import StepContext

# Plans that are kept; where there are more shapes, those used last have one.
_MOST_PLANS = 16
# Steps of some shapes before they get a plan, and shapes whose steps are counted.
_WARM_UP = 3
_MOST_COUNTED = 256


Shape: TypeAlias = Callable[[Observation, Shapes], Plan]


class Varied:
    """A plan: the one for the shapes of a step's arguments, and the one for any where there is none.

    Args:
        interpreter: makes a plan that runs the same nodes and honours `step.trace`.
        shape: makes the plan for shapes like those of the observed step, and of its arguments.
    """

    engine = "shaped"
    runs_in_line = True

    def __init__(self, general: Plan, interpreter: Callable[[], Plan], shape: Shape, first: Adaptive) -> None:
        self.general = general
        self._interpreter = interpreter
        self._shape = shape
        self._plans: dict[Shapes, Plan] = {}
        self._used: dict[Shapes, int] = {}
        self._clock = itertools.count()
        self._counts: Counter[Shapes] = Counter()
        self._lock = threading.Lock()
        self._add(first.shapes, first)

    @property
    def shapes(self) -> list[Shapes]:
        """List those that have a plan of their own."""
        return [shapes for shapes, plan in self._plans.items() if plan is not self.general]

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        shapes = shapes_of(args)
        plan = self._plans.get(shapes)
        if plan is not None:
            self._used[shapes] = next(self._clock)
            plan.run(step, args, results)
        elif step.trace is not None or not self._lock.acquire(blocking=False):
            self.general.run(step, args, results)
        else:
            try:
                self._meet(shapes, step, args, results)
            finally:
                self._lock.release()

    def _meet(self, shapes: Shapes, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        """Run a step of shapes that have no plan, and make one if there were some such steps."""
        if len(self._counts) >= _MOST_COUNTED:
            self._counts.clear()
        self._counts[shapes] += 1
        if self._counts[shapes] <= _WARM_UP:
            self.general.run(step, args, results)
            return
        observed, seen = copy.copy(step), Observation()
        observed.trace = seen
        self._interpreter().run(observed, args, results)
        del self._counts[shapes]
        while len(self._plans) >= _MOST_PLANS:
            oldest = min(self._plans, key=lambda one: self._used[one])
            del self._plans[oldest], self._used[oldest]
        self._add(shapes, self._shape(seen, shapes))

    def _add(self, shapes: Shapes, plan: Plan) -> None:
        if isinstance(plan, Adaptive):
            plan.changed = lambda: self._give_up(shapes)
        self._used[shapes] = next(self._clock)
        self._plans[shapes] = plan

    def _give_up(self, shapes: Shapes) -> None:
        """Run steps of some shapes by the plan for any: what is within them has other shapes each time."""
        if shapes in self._plans:
            self._plans[shapes] = self.general
