"""On what condition each value of an acyclic graph is live, as Python expressions over the predicates of its switches.

Inside a v1 conditional a value exists only when its branch was taken. Following the predicates through the graph shows
which nodes share a branch, and that the Merge at its end is live whenever the conditional itself is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dtfctl.runtime.executor.keys import is_client_terminated
from dtfctl.runtime.framework.node_graph import Edge, Node
from dtfctl.runtime.framework.structural_ops import MERGES, RECVS, SWITCHES, SWITCHES_OF_ANY


class Literal(NamedTuple):
    """A test of a predicate. `position` is that of the node it stands at, and so orders tests for evaluation: a
    predicate inside a branch is only there when the tests before it held."""

    position: int
    text: str
    negated: str


Condition = frozenset[Literal]
ALWAYS: Condition = frozenset()


def guard(condition: Condition) -> str:
    """Write a condition as an expression of Python, "" when it always holds."""
    return " and ".join(literal.text for literal in sorted(condition))


class Liveness:
    """Conditions of the nodes and outputs of `order`.

    Attributes:
        nodes: when a node runs; of a Merge, when it is live.
        outputs: when an output is live.
        predicates: the variable a Switch, Merge or receive sets, where it needs one of its own.
    """

    def __init__(self, order: list[Node], name: Callable[[int], str], root: Callable[[Edge], tuple[Node, int]]) -> None:
        self.nodes: dict[Node, Condition] = {}
        self.outputs: dict[tuple[Node, int], Condition] = {}
        self.predicates: dict[Node, str] = {}
        self._shared: dict[tuple[tuple[Node, int], str, Condition], tuple[int, str]] = {}
        for position, node in enumerate(order):
            self._add(position, node, name, root)

    def of(self, edge: Edge) -> Condition:
        return self.outputs[edge.node, edge.slot]

    def _add(self, i: int, node: Node, name: Callable[[int], str], root: Callable[[Edge], tuple[Node, int]]) -> None:
        op = node.op
        if op in MERGES:
            joined = _joined([self.of(e) for e in node.inputs])
            if joined is None:
                text = self.predicates[node] = name(i)
                joined = frozenset((Literal(i, text, f"not {text}"),))
            self._set(node, joined)
            return
        incoming = ALWAYS if op == "ControlTrigger" else self._incoming(node)
        if op in RECVS and not is_client_terminated(node):
            text = self.predicates[node] = name(i)
            incoming |= {Literal(i, text, f"not {text}")}
        self._set(node, incoming)
        if op in SWITCHES_OF_ANY:
            kind = "Switch" if op in SWITCHES else "SwitchN"
            key = root(node.inputs[1]), f"{kind}{len(node.output_types)}", incoming
            if key not in self._shared:
                self.predicates[node] = name(i)
                self._shared[key] = i, self.predicates[node]
            at, text = self._shared[key]
            for slot in range(len(node.output_types)):
                self.outputs[node, slot] = incoming | {_taken(at, text, slot, is_switch=op in SWITCHES)}

    def _incoming(self, node: Node) -> Condition:
        return ALWAYS.union(*(self.of(e) for e in node.inputs), *(self.nodes[c] for c in node.control_inputs))

    def _set(self, node: Node, condition: Condition) -> None:
        self.nodes[node] = condition
        for slot in range(len(node.output_types)):
            self.outputs[node, slot] = condition


def _taken(at: int, text: str, slot: int, *, is_switch: bool) -> Literal:
    if not is_switch:
        return Literal(at, f"{text} == {slot}", f"{text} != {slot}")
    negated = f"not {text}"
    return Literal(at, text, negated) if slot else Literal(at, negated, text)


def _joined(conditions: list[Condition]) -> Condition | None:
    """Find when at least one of the conditions holds; None if that is no single condition."""
    common = conditions[0].intersection(*conditions[1:])
    if common in conditions:
        return common
    if len(conditions) == 2:
        one, other = (c - common for c in conditions)
        if len(one) == len(other) == 1:
            (a,), (b,) = one, other
            if (a.position, a.text) == (b.position, b.negated):
                return common
    return None
