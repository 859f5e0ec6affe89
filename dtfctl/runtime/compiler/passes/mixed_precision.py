"""Computing products, and what lies between them, with half of the bits.

Which ops those are is found as TensorFlow's rewrite does, from what their signatures say: products are allowed; what is
denied makes everything that follows it denied, through ops that follow their inputs; what lies between allowed ops is
allowed; and ops that only move numbers are allowed where they touch what is. Casts are put where an edge leads from one
to the other.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.passes.rewrite import type_attr
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.op_signature import Arg, Precision
from dtfctl.runtime.framework.structural_ops import MERGES, NEXTS

log = logging.getLogger(__name__)

# The attribute that an op computes in the type of.
_TYPE = "T"


def lower_precision(graph: NodeGraph, dtype: DType, device_type: str, protected: set[Node]) -> bool:
    """Convert float32 nodes of one type of device to float16 or bfloat16 and add casts; True when there were any.

    Args:
        graph: placed; it is changed.
        protected: nodes that stay as they are.
    """
    chosen = _Choice(graph, dtype, _candidates(graph, dtype, device_type, protected)).allowed
    if not chosen:
        if device_type == "GPU" and any(_precision(node, dtype) == "allow" for node in graph):
            _say_once(dtype.name)
        return False
    _convert(graph, chosen, dtype)
    log.debug("%d of %d nodes are computed in %s", len(chosen), len(graph.nodes), dtype.name)
    return True


@lru_cache(4)
def _say_once(name: str) -> None:
    log.warning("mixed precision: %s gains nothing without GPUs; CPUs compute as the graph says, or in bfloat16", name)


def _precision(node: Node, dtype: DType) -> Precision | None:
    return node.signature.in_float16 if dtype is dtypes.float16 else node.signature.in_bfloat16


def _candidates(graph: NodeGraph, dtype: DType, device_type: str, protected: set[Node]) -> set[Node]:
    return {
        node
        for node in graph
        if _precision(node, dtype) is not None
        and node not in protected
        and f"/device:{device_type}:" in node.device
        and node.attr(_TYPE) is dtypes.float32
        and _may_be(node, dtype)
    }


def _may_be(node: Node, dtype: DType) -> bool:
    allowed = node.signature.attr_by_name[_TYPE].allowed
    return not allowed or dtype in allowed


class _Choice:
    """Which nodes are computed with less precision, of those that can be."""

    def __init__(self, graph: NodeGraph, dtype: DType, candidates: set[Node]) -> None:
        self._before: dict[Node, list[Node]] = {n: [] for n in candidates}
        self._after: dict[Node, list[Node]] = {n: [] for n in candidates}
        for node in candidates:
            for edge, arg in zip(node.inputs, _args(node, node.signature.inputs)):
                if arg == _TYPE and edge.node in candidates and _output_args(edge.node)[edge.slot] == _TYPE:
                    self._before[node].append(edge.node)
                    self._after[edge.node].append(node)
        said: dict[Precision | None, set[Node]] = defaultdict(set)
        for node in candidates:
            said[_precision(node, dtype)].add(node)
        self.allowed, infer, clear = said["allow"], said["infer"], said["clear"]
        denied = self._denied(said["deny"], infer, clear)
        between = (infer | clear) - denied
        below = self._reached(self.allowed, self._after, between.__contains__)
        above = self._reached(self.allowed, self._before, between.__contains__)
        self.allowed |= below & above
        free = clear - denied
        self.allowed |= self._reached(self.allowed, self._both, free.__contains__)
        if dtype is dtypes.bfloat16:
            self._follow(infer - denied, denied)
            self.allowed |= self._reached(self.allowed, self._both, free.__contains__)
        self._agree_in_loops(graph, candidates)

    def _denied(self, roots: set[Node], infer: set[Node], clear: set[Node]) -> set[Node]:
        """Find what is denied, or made so by what comes before it. What only moves numbers counts where those are
        used by something that may be denied."""
        passing = self._reached(roots | infer, self._before, clear.__contains__)
        return roots | self._reached(roots, self._after, lambda n: n in infer or n in passing)

    def _follow(self, infer: set[Node], denied: set[Node]) -> None:
        """Allow what follows something allowed and nothing denied: bfloat16 has the range of float32."""
        stack = list(self.allowed)
        while stack:
            for node in self._after[stack.pop()]:
                if node in infer and node not in self.allowed and denied.isdisjoint(self._before[node]):
                    self.allowed.add(node)
                    stack.append(node)

    def _both(self, node: Node) -> Iterable[Node]:
        return [*self._before[node], *self._after[node]]

    def _reached(
        self,
        roots: set[Node],
        edges: dict[Node, list[Node]] | Callable[[Node], Iterable[Node]],
        enters: Callable[[Node], bool],
    ) -> set[Node]:
        """Find what can be reached from roots through nodes that may be entered; not the roots."""
        follow = edges if callable(edges) else edges.__getitem__
        found: set[Node] = set()
        stack = list(roots)
        while stack:
            for node in follow(stack.pop()):
                if node not in found and node not in roots and enters(node):
                    found.add(node)
                    stack.append(node)
        return found

    def _agree_in_loops(self, graph: NodeGraph, candidates: set[Node]) -> None:
        """Leave the variables of loops as they are where not all that gives them a value is converted."""
        changed = True
        while changed:
            changed = False
            for node in graph:
                if node.op not in MERGES or not any(e.node.op in NEXTS for e in node.inputs):
                    continue
                around = {node, *(e.node for e in node.inputs if e.node.op in NEXTS)}
                if around & self.allowed and not around <= self.allowed:
                    self.allowed -= around
                    changed = True


def _args(node: Node, args: tuple[Arg, ...]) -> list[str]:
    """List the type attribute of each input or output, as many as there are; "" for a fixed type."""
    found: list[str] = []
    for arg in args:
        if arg.type_list_attr:
            found += [""] * len(node.attr(arg.type_list_attr))
        else:
            found += [arg.type_attr] * (int(node.attr(arg.number_attr)) if arg.number_attr else 1)
    return found


def _output_args(node: Node) -> list[str]:
    return _args(node, node.signature.outputs)


def _convert(graph: NodeGraph, chosen: set[Node], dtype: DType) -> None:
    low = type_attr(dtype)
    was = {node: _output_args(node) for node in chosen}
    for node in chosen:
        node.turn_into(node.signature, {**node.raw_attrs, _TYPE: low})
    casts: dict[tuple[Edge, bool], Edge] = {}

    def cast(edge: Edge, down: bool) -> Edge:
        made = casts.get((edge, down))
        if made is None:
            target = dtype.name.capitalize() if down else "Fp32"
            name = f"{edge.node.name}-{edge.slot}-CastTo{target}-AutoMixedPrecision"
            high = type_attr(dtypes.float32)
            attrs = {
                "SrcT": high if down else low,
                "DstT": low if down else high,
                "Truncate": graph_pb2.AttrValue(b=False),
            }
            node = graph.add(make_node(name, "Cast", attrs, [edge], (), edge.node.device))
            made = casts[edge, down] = Edge(node, 0)
        return made

    for node in list(graph):
        args = _args(node, node.signature.inputs) if node in chosen else []
        for i, edge in enumerate(node.inputs):
            gives_low = edge.node in chosen and was[edge.node][edge.slot] == _TYPE
            takes_low = bool(args) and args[i] == _TYPE
            if gives_low != takes_low:
                node.inputs[i] = cast(edge, takes_low)
