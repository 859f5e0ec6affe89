"""What a plan for known shapes (shaped.py) is made of, for what writes its lines."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.kernels.into.fusions import Output
from dtfctl.runtime.kernels.into.registry import Into, Spec
from dtfctl.runtime.kernels.native.compiler import Order


class Room(NamedTuple):
    """Stand-in for an array: an output that is in another one in each step, which may be one that others see."""

    output: Output
    spec: Spec
    is_sent: bool


@dataclass
class Shaped:
    """What a plan compiler does differently for known shapes.

    Attributes:
        fixed: outputs whose value is known.
        buffers: outputs that are always in the same array.
        calls: how to run nodes; with the arrays to give besides the inputs, or a `Room` for them.
        operands: of nodes in `calls` that do the work of others too, what they get instead of their inputs.
        folded: nodes whose work another one does, and the position of that one.
        same: nodes whose only output is their first input as it is.
        guards: before a node, which outputs must have which shapes.
        missing: regions that were not compiled yet.
    """

    fixed: dict[Output, Any] = field(default_factory=dict)
    buffers: dict[Output, Any] = field(default_factory=dict)
    calls: dict[Node, tuple[Into, list[Any]]] = field(default_factory=dict)
    operands: dict[Node, list[Output]] = field(default_factory=dict)
    folded: dict[Node, int] = field(default_factory=dict)
    same: set[Node] = field(default_factory=set)
    guards: dict[Node, list[tuple[Output, tuple[int, ...]]]] = field(default_factory=dict)
    missing: list[Order] = field(default_factory=list)

    @property
    def is_worthwhile(self) -> bool:
        return bool(self.calls or self.missing) or any(node.op != "Const" for node, _ in self.fixed)

    @property
    def nbytes(self) -> int:
        """Memory the buffers take."""
        return sum({id(b.base): b.base.nbytes for b in self.buffers.values()}.values())
