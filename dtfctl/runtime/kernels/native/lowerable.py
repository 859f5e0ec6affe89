"""Nodes' loops, added node by node: what may be a region, and what its code is made from."""

from __future__ import annotations

from collections.abc import Sequence

import dtfctl.runtime.kernels.native.lower_chosen
import dtfctl.runtime.kernels.native.lower_elements
import dtfctl.runtime.kernels.native.lower_norms
import dtfctl.runtime.kernels.native.lower_rows
import dtfctl.runtime.kernels.native.lower_updates  # noqa: F401  They enter what they lower.
from dtfctl.runtime.kernels.native import code
from dtfctl.runtime.kernels.native.lowering import EMPTY, LOWERINGS, Op, constant
from dtfctl.runtime.kernels.native.nests import Loops, Number, Unsupported, Value, View
from dtfctl.runtime.kernels.native.sketch import NUMBER, VALUE, Step


class Lowerable:
    """Steps of a sketch as loops."""

    def __init__(self) -> None:
        self.loops = Loops()
        self.steps: list[Step] = []
        self._values: list[list[Value]] = []
        self._operands: dict[int, View] = {}

    def add(self, step: Step) -> bool:
        """Add a step; False, and nothing is changed, where it has no loops."""
        lowering = LOWERINGS.get(step.op)
        if lowering is None or not step.outputs:
            return False
        if step.op not in EMPTY and any(0 in s.shape for s in step.outputs):
            return False
        before = len(self.loops.buffers), len(self.loops.assignments), dict(self._operands)
        try:
            inputs = [self._value(step, n) for n in range(len(step.inputs))]
            made = lowering(Op(step, self.loops, inputs))
        except Unsupported:
            self.loops.back_to(*before[:2])
            self._operands = before[2]
            return False
        self.steps.append(step)
        self._values.append(made)
        return True

    def _value(self, step: Step, n: int) -> Value:
        kind, at, slot = step.inputs[n]
        if kind == VALUE:
            return self._values[at][slot]
        if kind == NUMBER:
            return constant(step.fixed[n])
        spec = step.specs[n]
        if 0 in spec.shape:
            if step.op in EMPTY:
                return Number(None, spec.shape)
            raise Unsupported
        if at not in self._operands:
            self._operands[at] = self.loops.operand(spec)
        return self._operands[at]

    def generate(self, wanted: Sequence[tuple[int, int]]) -> tuple[code.Code, list[int]]:
        """Write the code of what is wanted; nothing can be added afterwards.

        Returns:
            The code, and the numbers of the operands that it gets, in order.
        """
        outputs = [self.loops.output(self._values[at][slot], self.steps[at].outputs[slot]) for at, slot in wanted]
        self.loops.group()
        used = {v.buffer for g in self.loops.groups for v in g.views()}
        operands = [at for at, view in self._operands.items() if view.buffer in used]
        made = code.generate(self.loops, [self._operands[at].buffer for at in operands], outputs)
        return made, operands
