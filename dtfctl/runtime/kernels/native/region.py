"""A region of a plan as one call: its nodes' loops, compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

import dtfctl.runtime.kernels.native.lower_elements
import dtfctl.runtime.kernels.native.lower_rows  # noqa: F401  Both enter what they lower.
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.into.parallel import shared_pool
from dtfctl.runtime.kernels.into.registry import Into, Spec, Unfit
from dtfctl.runtime.kernels.into.threads import threaded
from dtfctl.runtime.kernels.native import code, machine
from dtfctl.runtime.kernels.native.lowering import LOWERINGS, Op, constant
from dtfctl.runtime.kernels.native.nests import Loops, Unsupported, Value, View

Output = tuple[Node, int]
# Phases that touch less are not worth waking a thread.
_LEAST_BYTES_SHARED = 512 << 10
_PARTS_EACH = 2


class Region:
    """Nodes' loops, added node by node in running order.

    Args:
        spec: what is known of an output; root: whose value an input is.
        known: the values of outputs that are the same in every step.
    """

    def __init__(
        self, spec: Callable[[Output], Spec | None], roots: Callable[[Node], list[Output]], known: dict[Output, Any]
    ) -> None:
        self._spec, self._roots, self._known = spec, roots, known
        self.loops = Loops()
        self.values: dict[Output, Value] = {}
        self.operands: dict[Output, View] = {}
        self.nodes: list[Node] = []

    def add(self, node: Node) -> bool:
        """Add a node; False, and nothing is changed, where it has no loops."""
        lowering = LOWERINGS.get(node.op)
        roots = self._roots(node)
        specs = [self._spec(r) for r in roots]
        outputs = [self._spec((node, slot)) for slot in range(len(node.output_types))]
        known = [s for s in outputs if s is not None]
        if lowering is None or len(known) != len(outputs) or not known or any(0 in s.shape for s in known):
            return False
        before = len(self.loops.buffers), len(self.loops.assignments), dict(self.operands)
        try:
            inputs = [self._value(r, s) for r, s in zip(roots, specs)]
            fixed = {n: self._known[r] for n, r in enumerate(roots) if r in self._known}
            given = [s if s is not None else Spec((), np.dtype(np.float32)) for s in specs]
            made = lowering(Op(node, self.loops, inputs, given, known, fixed))
        except Unsupported:
            self.loops.back_to(*before[:2])
            self.operands = before[2]
            return False
        self.nodes.append(node)
        self.values.update({(node, slot): value for slot, value in enumerate(made)})
        return True

    def _value(self, output: Output, spec: Spec | None) -> Value:
        if output in self.values:
            return self.values[output]
        if output in self._known and np.size(self._known[output]) == 1:
            return constant(self._known[output])
        if spec is None or 0 in spec.shape:
            raise Unsupported
        if output not in self.operands:
            self.operands[output] = self.loops.operand(spec)
        return self.operands[output]

    def compile(self, wanted: Sequence[tuple[Output, Spec]]) -> tuple[Into, list[Output]]:
        """Compile what is wanted of the region.

        Returns:
            The call, which fills what is wanted, and its operands.
        """
        outputs = [self.loops.output(self.values[output], spec) for output, spec in wanted]
        self.loops.group()
        used = {v.buffer for g in self.loops.groups for v in g.views()}
        operands = [o for o, view in self.operands.items() if view.buffer in used]
        made = code.generate(self.loops, [self.operands[o].buffer for o in operands], outputs)
        shapes = [self.loops.buffers[self.operands[o].buffer] for o in operands]
        call = _call(made, [(np.dtype(s.kind), s.shape) for s in shapes])
        scratch = (Spec((max(made.scratch, 1),), np.dtype(np.uint8)),)
        return Into(call, scratch=scratch, is_guarded=True), operands


# Cells that are alike are one piece of code.
_loaded = lru_cache(256)(machine.load)


def _call(made: code.Code, operands: list[tuple[np.dtype[Any], tuple[int, ...]]]) -> Callable[..., None]:
    whole = _loaded(made.text, "region")
    count = len(operands)

    def again(*arrays: Any) -> tuple[Any, ...]:
        """Make operands what the code takes: contiguous arrays of its types."""
        given = []
        for array, (dtype, shape) in zip(arrays, operands):
            if getattr(array, "dtype", None) != dtype or array.shape != shape:
                raise Unfit
            given.append(np.ascontiguousarray(array, dtype).reshape(shape))
        given += arrays[count:]
        if not whole(*given):
            raise Unfit
        return tuple(given)

    def alone(*arrays: Any) -> None:
        if not whole(*arrays):
            again(*arrays)

    size = shared_pool().size
    shared = [p.blocks >= 2 and p.nbytes >= _LEAST_BYTES_SHARED for p in made.phases]
    if size < 2 or not any(shared):
        return alone
    part = _loaded(made.text, "part")
    numbers = [np.array(n, np.int64) for n in range(len(made.phases))]
    bounds = [
        [
            (np.array(p.blocks * n // parts, np.int64), np.array(p.blocks * (n + 1) // parts, np.int64))
            for parts in (min(p.blocks, size * _PARTS_EACH if is_shared else 1),)
            for n in range(parts)
        ]
        for p, is_shared in zip(made.phases, shared)
    ]

    def together(*arrays: Any) -> None:
        for number, ends in zip(numbers, bounds):
            if len(ends) > 1:
                shared_pool().run([partial(_refusing, part, number, *at, *arrays) for at in ends])
            elif not part(number, *ends[0], *arrays):
                # Nothing has been written but what is written again.
                alone(*arrays)
                return

    return threaded(together, alone, size)


def _refusing(part: Callable[..., bool], *values: Any) -> None:
    if not part(*values):
        raise Unfit
