"""Fused ops: where a graph computes what a pattern says, one op takes the place of the pattern's.

A pattern is a small graph whose placeholders are the fused op's inputs. It is found where all of it is one device's,
nothing waits for its inside and nobody else takes what the fused op does not give. What the inside, or a constant in
it, waits for, the fused op waits for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.order import inputs_first
from dtfctl.runtime.compiler.passes.fold import constant_of
from dtfctl.runtime.compiler.passes.rewrite import is_pure, reconnect
from dtfctl.runtime.framework.node_graph import CONTROL, Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.plugins import load_named_modules
from dtfctl.runtime.framework.structural_ops import MERGES, NEXTS, SWITCHES_OF_ANY
from dtfctl.runtime.kernels.registry import find_kernel


@dataclass(frozen=True)
class Pattern:
    """What a fused op computes.

    Attributes:
        op: the fused op.
        attrs: its attributes: the types that this pattern is for.
        inputs: the placeholders, in the order of the op's inputs.
        outputs: what the op gives, in order; all of it is computed on the way to the first.
    """

    op: str
    attrs: dict[str, graph_pb2.AttrValue]
    inputs: tuple[Node, ...]
    outputs: tuple[Edge, ...]

    @cached_property
    def size(self) -> int:
        """Count the nodes that compute."""
        return len(self.computing)

    @cached_property
    def computing(self) -> frozenset[Node]:
        """Collect the nodes that one op takes the place of: neither inputs nor constants."""
        found: set[Node] = set()
        stack = [self.outputs[0].node]
        while stack:
            node = stack.pop()
            if node not in found and node not in self.inputs and node.op != "Const":
                found.add(node)
                stack += [edge.node for edge in node.inputs]
        return frozenset(found)


PATTERNS: dict[str, list[Pattern]] = {}
"""Lists the patterns by the op of their first output, those that replace most first."""


def add_pattern(pattern: Pattern) -> None:
    """Let graphs be searched for a pattern."""
    known = PATTERNS.setdefault(pattern.outputs[0].node.op, [])
    known.append(pattern)
    known.sort(key=lambda p: -p.size)


def may_fuse(graph: NodeGraph) -> bool:
    """Tell whether a graph has what a pattern's first output is."""
    load_named_modules()
    return bool(PATTERNS) and any(node.op in PATTERNS for node in graph)


def fuse_patterns(graph: NodeGraph, protected: set[Node], device_type: str = "") -> bool:
    """Replace what patterns match by fused ops; True when there was any. What is left over is for the caller to drop.

    Args:
        protected: nodes that stay what they are.
        device_type: "CPU" or "GPU" where one device runs all nodes, whatever they ask for; else each has its own.
    """
    if not may_fuse(graph):
        return False
    consumers = graph.consumers()
    branches = any(node.op in SWITCHES_OF_ANY for node in graph)
    moved: dict[Edge, Edge] = {}
    taken: set[Node] = set()
    # Outermost first: what is inside of a larger pattern is no match of a smaller one.
    for root in reversed(inputs_first(graph)):
        for pattern in PATTERNS.get(root.op, ()):
            found = _match(pattern, root)
            if found is None or found.is_held(pattern, consumers, protected | taken, bool(device_type)):
                continue
            if len(pattern.outputs) > 1 and (
                found.takes_what_it_gives(consumers) or (branches and found.outlives_its_result(pattern))
            ):
                continue
            fused = _fused(graph, pattern, root, found, device_type)
            if fused is None:
                continue
            taken |= {found.nodes[node] for node in pattern.computing}
            for slot, edge in enumerate(pattern.outputs):
                moved[Edge(found.nodes[edge.node], edge.slot)] = Edge(fused, slot)
            for consumer, position in consumers[root]:
                if position == CONTROL:
                    consumer.control_inputs = [fused if n is root else n for n in consumer.control_inputs]
            break
    reconnect(graph, moved)
    return bool(moved)


@dataclass
class _Match:
    """Which of a graph's nodes and edges are a pattern's."""

    nodes: dict[Node, Node]
    inputs: dict[Node, Edge]
    constants: frozenset[Node] = frozenset()

    @property
    def waits_for(self) -> list[Node]:
        """List what must have run before any of it."""
        parts = (*self.nodes.values(), *self.constants)
        return sorted({node for part in parts for node in part.control_inputs}, key=lambda node: node.name)

    def is_held(
        self,
        pattern: Pattern,
        consumers: dict[Node, list[tuple[Node, int]]],
        protected: set[Node],
        one_device: bool,
    ) -> bool:
        """Tell whether somebody else needs what is inside, or it is not of one device."""
        inside = {self.nodes[node]: node for node in pattern.computing}
        given = set(pattern.outputs)
        device = self.nodes[pattern.outputs[0].node].device
        for node, stands_for in inside.items():
            if node in protected or not is_pure(node) or (node.device != device and not one_device):
                return True
            for consumer, position in consumers[node]:
                if position == CONTROL:
                    # Who waits for the first output may wait for the fused op; it might itself wait for others.
                    if stands_for is not pattern.outputs[0].node:
                        return True
                elif consumer not in inside and Edge(stands_for, consumer.inputs[position].slot) not in given:
                    return True
        return False

    def takes_what_it_gives(self, consumers: dict[Node, list[tuple[Node, int]]]) -> bool:
        """Tell whether an input is computed from another output: one op would wait for itself."""
        inside = set(self.nodes.values())
        wanted = {*(edge.node for edge in self.inputs.values()), *self.waits_for}
        seen: set[Node] = set()
        stack = [consumer for node in inside for consumer, _ in consumers[node] if consumer not in inside]
        while stack:
            node = stack.pop()
            if node in wanted:
                return True
            # What another turn of a loop gets waits for nothing in this one.
            if node not in seen and node.op not in NEXTS:
                seen.add(node)
                stack += [consumer for consumer, _ in consumers[node]]
        return False

    def outlives_its_result(self, pattern: Pattern) -> bool:
        """Tell whether the first output may be of a branch that is not taken, which another output is no part of."""
        return any(
            _is_of_a_branch(cause)
            for cause in self._causes(pattern.outputs[0].node)
            if not all(cause in self._causes(edge.node) for edge in pattern.outputs[1:])
        )

    def _causes(self, node: Node) -> set[Node]:
        """Collect what a node of the pattern is computed from, and after, outside of it."""
        found: set[Node] = set()
        stack = [node]
        while stack:
            one = stack.pop()
            if one in self.nodes:
                found.update(self.nodes[one].control_inputs)
                stack += [edge.node for edge in one.inputs]
            elif one in self.inputs:
                found.add(self.inputs[one].node)
        return found


def _is_of_a_branch(node: Node) -> bool:
    seen: set[Node] = set()
    stack = [node]
    while stack:
        one = stack.pop()
        if one.op in SWITCHES_OF_ANY:
            return True
        if one not in seen and one.op not in MERGES:
            seen.add(one)
            stack += [*(edge.node for edge in one.inputs), *one.control_inputs]
    return False


def _match(pattern: Pattern, root: Node) -> _Match | None:
    """Find a way in which a node is the pattern's first output."""
    top = pattern.outputs[0].node
    for found in _ways(top, root, _Match({}, {}), frozenset(pattern.inputs)):
        return found
    return None


def _ways(node: Node, real: Node, known: _Match, holes: frozenset[Node]) -> Iterator[_Match]:
    """Yield the ways in which a node of a graph is one of the pattern's, with what is known already."""
    if node in known.nodes:
        if known.nodes[node] is real:
            yield known
        return
    if node.op != real.op or real in known.nodes.values() or not _alike(node, real):
        return
    known = _Match({**known.nodes, node: real}, known.inputs, known.constants)
    if len(node.inputs) != len(real.inputs):
        return
    orders = [real.inputs]
    if node.signature.is_commutative and len(real.inputs) == 2:
        orders.append(real.inputs[::-1])
    for edges in orders:
        yield from _operands([*zip(node.inputs, edges)], known, holes)


def _operands(pairs: list[tuple[Edge, Edge]], known: _Match, holes: frozenset[Node]) -> Iterator[_Match]:
    if not pairs:
        yield known
        return
    (edge, real), rest = pairs[0], pairs[1:]
    if edge.node in holes:
        bound = known.inputs.get(edge.node)
        if real.dtype.base_dtype is edge.dtype and (bound is None or bound == real):
            yield from _operands(rest, _Match(known.nodes, {**known.inputs, edge.node: real}, known.constants), holes)
    elif edge.node.op == "Const":
        if _same_constant(edge, real):
            constants = known.constants | {real.node}
            yield from _operands(rest, _Match(known.nodes, known.inputs, constants), holes)
    elif edge.slot == real.slot:
        for found in _ways(edge.node, real.node, known, holes):
            yield from _operands(rest, found, holes)


def _alike(node: Node, real: Node) -> bool:
    """Tell whether two nodes of one op have the same attributes; what is said with an underscore is the runtime's."""
    return _attrs(node) == _attrs(real)


def _attrs(node: Node) -> dict[str, bytes]:
    return {
        name: value.SerializeToString(deterministic=True)
        for name, value in node.raw_attrs.items()
        if not name.startswith("_")
    }


def _same_constant(edge: Edge, real: Edge) -> bool:
    first, second = constant_of(edge), constant_of(real)
    if first is None or second is None or edge.dtype is not real.dtype:
        return False
    if first.shape != second.shape:
        return False
    return first.dtype != object and bool(np.array_equal(_bits(first), _bits(second)))


def _bits(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8)


def _fused(graph: NodeGraph, pattern: Pattern, root: Node, found: _Match, device_type: str) -> Node | None:
    """Add the fused op to a graph; None where the device has no kernel of it."""
    name = f"{root.name}/{pattern.op}"
    if name in graph.nodes:
        return None
    kept = {key: value for key, value in root.raw_attrs.items() if key.startswith("_")}
    inputs = [found.inputs[node] for node in pattern.inputs]
    node = make_node(name, pattern.op, {**kept, **pattern.attrs}, inputs, device=root.device)
    node.control_inputs = found.waits_for
    node.rank = root.rank
    return graph.add(node) if find_kernel(node, device_type or root.device.rsplit(":", 2)[1]) is not None else None
