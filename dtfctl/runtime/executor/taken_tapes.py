"""Tapes in a plan for known shapes: which lines are there, what they are given, and whose work a tape does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dtfctl.runtime.executor.fusion import Work
from dtfctl.runtime.executor.shaped_lines import Shaped
from dtfctl.runtime.executor.tapes import Known, Line, find_tapes
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.structural_ops import NOTHING
from dtfctl.runtime.kernels.into.fusions import Output


def take_tapes(
    order: list[Node],
    shaped: Shaped,
    works: Mapping[Node, Work],
    aliases: Mapping[Output, Output],
    roots: Callable[[Node], list[Output]],
) -> None:
    """Let tapes be the work of their last nodes.

    Args:
        shaped: the plan, which is changed. works: what its lines do.
        aliases: outputs of identities, and the output whose value they are.
        roots: in whose memory a node's inputs are.
    """
    lines = _Lines(shaped, works, aliases)
    position = {node: i for i, node in enumerate(order)}
    calls, operands, folded = shaped.calls, shaped.operands, shaped.folded
    known = Known(lines.line, lines.is_idle, lines.array, roots)
    for found in list(find_tapes(order, known, shaped.missing)):
        *others, last = found.nodes
        at = position[last]
        within = {position[node] for node in found.nodes}
        # What a step did for other nodes is done when the tape is.
        folded.update({node: at for node, by in folded.items() if by in within})
        for node in others:
            del calls[node]
            operands.pop(node, None)
            folded[node] = at
        calls[last], operands[last] = (found.into, found.rooms), found.operands


class _Lines:
    def __init__(self, shaped: Shaped, works: Mapping[Node, Work], aliases: Mapping[Output, Output]) -> None:
        self._shaped, self._works, self._aliases = shaped, works, aliases
        # What is the same in every step, in the order of its elements.
        self._in_order: dict[Output, Any] = {}

    def line(self, node: Node) -> Line | None:
        call = self._shaped.calls.get(node)
        if call is None:
            return None
        work = self._works[node]
        return Line(node, call[0], work.operands, call[1], [output for output, _ in work.outputs])

    def is_idle(self, node: Node) -> bool:
        """Tell whether a plan does nothing for the node at its place."""
        output = (node, 0)
        return (
            node in self._shaped.folded
            or output in self._shaped.buffers
            or output in self._shaped.fixed
            or output in self._aliases
            or node.op in NOTHING
        )

    def array(self, output: Output) -> Any:
        """Return the array that an output is in each time, as machine code takes it; None where it is another one."""
        if output in self._shaped.fixed and output not in self._in_order:
            value = np.asarray(self._shaped.fixed[output])
            # What is known may be a view, such as a constant that is transposed.
            self._in_order[output] = None if value.dtype.hasobject else np.require(value, requirements=["C", "A"])
        return self._shaped.buffers.get(output, self._in_order.get(output))
