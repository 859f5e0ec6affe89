"""A region of a plan as one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.into.registry import Into, Spec
from dtfctl.runtime.kernels.native.calls import call_of
from dtfctl.runtime.kernels.native.kept import Compiled
from dtfctl.runtime.kernels.native.lowerable import Lowerable
from dtfctl.runtime.kernels.native.sketch import (
    ATTRIBUTES,
    MOST_FIXED,
    NUMBER,
    OPERAND,
    VALUE,
    Ref,
    Sketch,
    Step as SketchStep,
)
from dtfctl.runtime.kernels.native.tape import step_of

Output = tuple[Node, int]


class Region:
    """Nodes of a plan, added one by one in running order.

    Args:
        spec: what is known of an output; root: whose value an input is.
        known: the values of outputs that are the same in every step.
    """

    def __init__(
        self, spec: Callable[[Output], Spec | None], roots: Callable[[Node], list[Output]], known: dict[Output, Any]
    ) -> None:
        self._spec, self._roots, self._known = spec, roots, known
        self._lowerable = Lowerable()
        # Values that nodes give, as steps and outputs, and what comes from elsewhere.
        self.values: dict[Output, tuple[int, int]] = {}
        self.operands: dict[Output, int] = {}
        self.nodes: list[Node] = []

    def add(self, node: Node) -> bool:
        """Add a node; False, and nothing is changed, where it has no loops."""
        roots = self._roots(node)
        specs = [s for s in map(self._spec, roots) if s is not None]
        outputs = [s for slot in range(len(node.output_types)) if (s := self._spec((node, slot))) is not None]
        if len(specs) != len(roots) or len(outputs) != len(node.output_types):
            return False
        fixed = {n: v for n, r in enumerate(roots) if (v := self._fixed(r)) is not None}
        before = len(self.operands)
        refs = [self._ref(r, n in fixed and fixed[n].size == 1) for n, r in enumerate(roots)]
        attrs = {}
        for name, usual in ATTRIBUTES.items():
            value = node.attr(name, usual)
            value = value.decode(errors="replace") if isinstance(value, bytes) else value
            if value != usual and isinstance(value, (str, int, float)):
                attrs[name] = value
        if not self._lowerable.add(SketchStep(node.op, attrs, refs, specs, outputs, fixed)):
            for output in list(self.operands)[before:]:
                del self.operands[output]
            return False
        at = len(self.nodes)
        self.nodes.append(node)
        self.values.update({(node, slot): (at, slot) for slot in range(len(outputs))})
        return True

    def _fixed(self, output: Output) -> Any:
        if output not in self._known or output in self.values:
            return None
        value = np.asarray(self._known[output])
        return value if value.size <= MOST_FIXED and value.dtype.kind in "biuf" else None

    def _ref(self, output: Output, is_number: bool) -> Ref:
        if output in self.values:
            return (VALUE, *self.values[output])
        if is_number:
            return NUMBER, 0, 0
        return OPERAND, self.operands.setdefault(output, len(self.operands)), 0

    def sketch(self, wanted: Sequence[Output]) -> Sketch:
        """Return what compiling it takes, where these of its values are wanted."""
        return Sketch(self._lowerable.steps, [self.values[output] for output in wanted])

    def call(self, made: Compiled) -> tuple[Into, list[Output]]:
        """Make the call, which fills what is wanted; and its operands."""
        of = list(self.operands)
        operands = [of[n] for n in made.operands]
        specs = [s for s in map(self._spec, operands) if s is not None]
        scratch = (Spec((max(made.scratch, 1),), np.dtype(np.uint8)),)
        into = Into(call_of(made, specs), scratch=scratch, is_guarded=True, step=partial(step_of, made, specs))
        return into, operands
