"""What one call does for several nodes, said where that call is made.

    @fuses("BiasAdd", "Add", "AddV2")
    def _bias_of_a_convolution(node: Node, around: Around) -> Iterator[Fusion]:
        for edge, bias in operands_and_biases(node, around):
            made = around.only_made_by(edge, "Conv2D")
            ...
            yield [Line(node, Into(...), operands, [(output, spec)], replaces=(made,))]

A rule is asked for each node of its ops in a plan for known shapes. It looks at what is around the node, and promises
that the lines it gives compute what the nodes would that they stand for. That nobody else wants what is not made any
more, or wants something before it is made, is no rule's business: who plans (executor/fusion.py) looks at that for each
fusion, and takes the first one of which it is so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from dtfctl.runtime.framework.node_graph import Edge, Node
from dtfctl.runtime.kernels.into.registry import Into, Spec, load_makers
from dtfctl.runtime.kernels.registry import KernelBuild

Output = tuple[Node, int]


@dataclass(frozen=True)
class Line:
    """What the line of one node does.

    Attributes:
        node: whose line it is, which does the node's own work too.
        operands: what the call gets.
        outputs: what it fills. An output that its node does not have is one that only lines of the same fusion take.
        replaces: nodes that have no line of their own then.
    """

    node: Node
    into: Into
    operands: Sequence[Output]
    outputs: Sequence[tuple[Output, Spec]] = ()
    replaces: tuple[Node, ...] = ()


Fusion = list[Line]
"""Lines that are only right together."""


class Around(Protocol):
    """What a rule may ask of a plan."""

    @property
    def has_onednn(self) -> bool:
        """True when the plan has work for oneDNN's threads."""

    def root(self, edge: Edge) -> Output:
        """Find whose value an edge brings, identities left out."""

    def spec(self, output: Output) -> Spec | None:
        """Return the shape and dtype of an output; None if it is no array."""

    def build(self, node: Node) -> KernelBuild:
        """Return what the factory of the node's kernel gets."""

    def taken_by(self, output: Output) -> list[Node]:
        """List the nodes that take an output, identities left out, in the plan's order."""

    def only_made_by(self, edge: Edge, *ops: str) -> Node | None:
        """Find who makes what an edge brings, if it is a node of these ops and nobody else takes its first output."""


Rule = Callable[[Node, Around], Iterator[Fusion]]
OneDnn = Callable[[KernelBuild, list[Spec | None], list[Spec | None]], bool]

_RULES: dict[str, list[Rule]] = {}
_BY_ONEDNN: dict[str, OneDnn] = {}


def fuses(*ops: str) -> Callable[[Rule], Rule]:
    """Decorator: the function is a rule for nodes of these ops."""

    def add(rule: Rule) -> Rule:
        for op in ops:
            _RULES.setdefault(op, []).append(rule)
        return rule

    return add


def may_use_onednn(*ops: str) -> Callable[[OneDnn], OneDnn]:
    """Decorator: the function tells of nodes of these ops whether oneDNN's threads do their work.

    It gets what the factory of the kernel gets, and what is known of inputs and outputs.
    """

    def add(tell: OneDnn) -> OneDnn:
        _BY_ONEDNN.update(dict.fromkeys(ops, tell))
        return tell

    return add


def fusion_rules() -> dict[str, list[Rule]]:
    """Return all rules by op, their modules imported first."""
    load_makers()
    return _RULES


def users_of_onednn() -> dict[str, OneDnn]:
    """Return by op what tells whether oneDNN works for a node, the modules imported first."""
    load_makers()
    return _BY_ONEDNN


def rows_and_bias(node: Node, around: Around) -> Iterator[tuple[Edge, Output, Spec]]:
    """Find which operand of an addition is added to each row of which; gives the rows, the bias and what it is."""
    made = around.spec((node, 0))
    if made is None or node.text_attr("data_format", "NHWC") != "NHWC":
        return
    for edge, other in (node.inputs, node.inputs[::-1]):
        bias = around.root(other)
        spec = around.spec(bias)
        if spec == Spec(made.shape[-1:], made.dtype) and around.spec(around.root(edge)) == made:
            yield edge, bias, spec
