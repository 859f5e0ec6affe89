"""A plan for the shapes a partition was seen to have, beside the one for any shapes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dtfctl.runtime.executor.incoming import Incoming, Shapes
from dtfctl.runtime.executor.plan import Plan
from dtfctl.runtime.executor.straight_line import StraightLine
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.native.compiler import COMPILER, Request
from dtfctl.runtime.kernels.native.sketch import Sketch

# Steps of other shapes before it is looked at whether the plan is worth keeping, and what part of all they may be.
_MISSES = 4
_MOST_MISSED = 0.2


@dataclass
class Better:
    """A plan that can be had once its regions are compiled.

    Attributes:
        missing: those regions; make: plans again; after: how many runs make it worth it.
    """

    missing: Sequence[Sketch]
    make: Callable[[], StraightLine]
    after: int
    request: Request | None = None


class Adaptive:
    """A plan: one step at a time by the plan for the shapes seen, and those beside it by the plan for any.

    Args:
        incoming: tells the shapes of what a step gets from outside.
        shapes: those that it is for.
        lock: is held while steps are run by plans that have the same buffers.
        changed: called when too many steps have other shapes, though what they get from outside has not.
        better: what takes its place; None where no region is missing.

    Attributes:
        varied: called with this when what some steps got from outside had other shapes.
        is_unsteady: whether too many steps had other shapes though what they got from outside had not.
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
        changed: Callable[[], None],
        better: Better | None = None,
    ) -> None:
        self.shaped = shaped
        self.general = general
        self.shapes = shapes
        self._incoming = incoming
        self._lock = lock
        self.changed = changed
        self.varied: Callable[[Adaptive], None] = lambda plan: None
        self.is_unsteady = False
        self._runs = 0
        self._misses = 0
        self._others = 0
        self._better = better

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        if step.trace is not None or not self._lock.acquire(blocking=False):
            self.general.run(step, args, results)
            return
        try:
            self._runs += 1
            if self._better is not None:
                self._look(self._better)
            shapes = self._incoming.shapes(step, args) if self._incoming.looks_ahead else None
            left = self.shaped.attempt(step, args, results)
            if left is not None:
                if not left.dead:
                    self._missed(self._incoming.shapes(step, args) if shapes is None else shapes)
                # What is left takes values out of buffers, which nobody else may fill meanwhile.
                self.shaped.finish(step, args, results, left)
        finally:
            self._lock.release()

    def _look(self, better: Better) -> None:
        """Have regions compiled, and take the better plan once they are; nothing is waited for."""
        if better.request is None:
            if self._runs >= better.after:
                better.request = COMPILER.request(better.missing)
        elif better.request.is_done:
            self._better = None
            self.shaped = better.make()

    def _missed(self, shapes: Shapes) -> None:
        if shapes != self.shapes:
            self._others += 1
            if self._others == _MISSES:
                self.varied(self)
            return
        self._misses += 1
        if self._misses >= _MISSES and self._misses > self._runs * _MOST_MISSED:
            self.is_unsteady = True
            self.changed()
