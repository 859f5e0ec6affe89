"""A plan for the shapes a partition was seen to have, beside the one for any shapes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.executor.background import InBackground
from dtfctl.runtime.executor.plan import Plan
from dtfctl.runtime.executor.straight_line import StraightLine
from dtfctl.runtime.kernels.context import StepContext

# Steps of other shapes before it is looked at whether the plan is worth keeping, and what part of all they may be.
_MISSES = 4
_MOST_MISSED = 0.2
# The step during which regions begin to be compiled, and the one from which on they are used. Both are fixed, and not
# when LLVM happens to be ready, so that the same program rounds the same way every time.
COMPILED_FROM, NATIVE_FROM = 16, 48


class Adaptive:
    """A plan: one step at a time by the plan for the shapes seen, and those beside it by the plan for any.

    Args:
        changed: called when too many steps have other shapes.
        native: makes the plan whose regions are compiled; None where there is no compiler.
    """

    engine = "shaped"
    runs_in_line = True

    def __init__(
        self,
        shaped: StraightLine,
        general: Plan,
        changed: Callable[[], None],
        native: Callable[[], StraightLine] | None = None,
    ) -> None:
        self.shaped = shaped
        self.general = general
        self._changed = changed
        self._lock = threading.Lock()
        self._runs = 0
        self._misses = 0
        self._native = native
        self._making: InBackground[StraightLine] | None = None

    def run(self, step: StepContext, args: Sequence[Any], results: list[Any]) -> None:
        if step.trace is not None or not self._lock.acquire(blocking=False):
            self.general.run(step, args, results)
            return
        try:
            self._runs += 1
            if self._native is not None:
                self._go_native(step)
            left = self.shaped.attempt(step, args, results)
            if left is not None:
                if not left.dead:
                    self._missed()
                # What is left takes values out of buffers, which nobody else may fill meanwhile.
                self.shaped.finish(step, args, results, left)
        finally:
            self._lock.release()

    def _go_native(self, step: StepContext) -> None:
        """Have regions compiled beside the steps, and use them from a certain step on."""
        if self._runs >= COMPILED_FROM and self._making is None:
            assert self._native is not None
            self._making = InBackground(self._native)
        if self._runs >= NATIVE_FROM and self._making is not None:
            made = self._making.result(step.cancellation.check)
            if made is not None:
                self.shaped = made
            self._native = self._making = None

    def _missed(self) -> None:
        self._misses += 1
        if self._misses >= _MISSES and self._misses > self._runs * _MOST_MISSED:
            self._changed()
