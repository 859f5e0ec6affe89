"""A plan for the shapes a partition was seen to have, beside the one for any shapes."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.executor.incoming import Incoming, Shapes
from dtfctl.runtime.executor.observation import Observation
from dtfctl.runtime.executor.plan import Plan
from dtfctl.runtime.executor.straight_line import StraightLine
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.native.compiler import COMPILER, Request

# Steps of other shapes before it is looked at whether the plan is worth keeping, and what part of all they may be.
_MISSES = 4
_MOST_MISSED = 0.2
# How often it is planned again because values within its steps have other shapes each time.
_MOST_PLANNED = 8


class Adaptive:
    """A plan: one step at a time by the plan for the shapes seen, and those beside it by the plan for any.

    Args:
        incoming: tells the shapes of what a step gets from outside.
        shapes: those that it is for.
        lock: is held while steps are run by plans that have the same buffers.
        seen: the step that it was planned by.
        again: plans anew by what `seen` says by then.
        after: how many steps make it worth it to have regions compiled that were not yet.

    Attributes:
        varied: called with this when what some steps got from outside had other shapes.
        gave_up: called when steps have other shapes though what they get from outside has not, however it is planned.
        is_unsteady: whether that was so.
    """

    engine = "shaped"
    runs_in_line = True

    def __init__(
        self,
        shaped: StraightLine,
        general: Plan,
        incoming: Incoming,
        shapes: Shapes,
        lock: threading.Lock,
        seen: Observation,
        again: Callable[[], StraightLine],
        after: int,
    ) -> None:
        self.general = general
        self.shapes = shapes
        self._incoming = incoming
        self._lock = lock
        self._seen = seen
        self._again = again
        self._after = after
        self.varied: Callable[[Adaptive], None] = lambda plan: None
        self.gave_up: Callable[[], None] = lambda: None
        self.is_unsteady = False
        self._others = 0
        self._planned = 0
        self._take(shaped)

    def _take(self, shaped: StraightLine) -> None:
        self.shaped = shaped
        self._missing = shaped.missing
        self._request: Request | None = None
        self._runs = 0
        self._misses = 0

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        if step.trace is not None or not self._lock.acquire(blocking=False):
            self.general.run(step, args, results)
            return
        try:
            self._runs += 1
            if self._missing:
                self._look()
            shapes = self._incoming.shapes(step, args) if self._incoming.looks_ahead else None
            left = self.shaped.attempt(step, args, results)
            if left is None:
                return
            # What is left takes values out of buffers, which nobody else may fill meanwhile.
            if left.dead:
                self.shaped.finish(step, args, results, left)
            elif (self._incoming.shapes(step, args) if shapes is None else shapes) != self.shapes:
                self.shaped.finish(step, args, results, left)
                self._others += 1
                if self._others == _MISSES:
                    self.varied(self)
            else:
                finishing, other = copy.copy(step), Observation()
                finishing.trace = other
                other.take(left.values)
                self.shaped.finish(finishing, args, results, left)
                self._missed(other)
        finally:
            self._lock.release()

    def _look(self) -> None:
        """Have regions compiled, and take the better plan once they are; nothing is waited for."""
        if self._request is None:
            if self._runs >= self._after:
                self._request = COMPILER.request(self._missing)
        elif self._request.is_done:
            self.shaped, self._missing = self._again(), ()

    def _missed(self, other: Observation) -> None:
        """Plan again without what was otherwise in some steps, or give up, once those are many."""
        self._seen.differs(other)
        self._misses += 1
        if self._misses < _MISSES or self._misses <= self._runs * _MOST_MISSED:
            return
        self._planned += 1
        shaped = self._again() if self._planned < _MOST_PLANNED else None
        if shaped is not None and shaped.is_shaped:
            self._take(shaped)
        else:
            self.is_unsteady = True
            self.gave_up()
