"""What rewrites share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.structural_ops import CONTROL_FLOW
from dtfctl.runtime.kernels.registry import op_promises


def is_pure(node: Node) -> bool:
    """Tell whether equal inputs and attributes give equal outputs, at any time."""
    op, signature = node.op, node.signature
    if signature.is_stateful or op in CONTROL_FLOW or signature.takes_functions or op_promises(op, "reads_outside"):
        return False
    for edge in node.inputs:
        if _holds_state(edge.node.output_types[edge.slot]):
            return False
    return not any(map(_holds_state, node.output_types))


@cache
def _holds_state(dtype: DType) -> bool:
    return dtype.is_ref or dtype is dtypes.resource or dtype is dtypes.variant


def follow(moved: Mapping[Edge, Edge], edge: Edge) -> Edge:
    """Follow an edge to where it leads after replacements of replacements."""
    while True:
        after = moved.get(edge)
        if after is None:
            return edge
        edge = after


def reconnect(graph: NodeGraph, moved: Mapping[Edge, Edge]) -> None:
    """Let consumers of replaced edges take the replacements."""
    if moved:
        for node in graph:
            for i, edge in enumerate(node.inputs):
                if edge in moved:
                    node.inputs[i] = follow(moved, edge)


def drop_unused(graph: NodeGraph, roots: list[Node]) -> None:
    """Remove what the roots do not need."""
    kept: set[Node] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in kept:
            kept.add(node)
            stack += [e.node for e in node.inputs]
            stack += node.control_inputs
    if len(kept) != len(graph.nodes):
        graph.nodes = {name: node for name, node in graph.nodes.items() if node in kept}


def become(node: Node, op: str, attrs: dict[str, graph_pb2.AttrValue]) -> None:
    """Make a node another op; inputs are the caller's business. Underscored attributes stay."""
    signature = get_signature(op)
    raw = {a.name: a.default for a in signature.attrs if a.default is not None}
    raw.update({k: v for k, v in node.raw_attrs.items() if k.startswith("_")})
    raw.update(attrs)
    node.turn_into(signature, raw)


def type_attr(dtype: DType) -> graph_pb2.AttrValue:
    return graph_pb2.AttrValue(type=dtype.base_dtype.as_datatype_enum)  # type: ignore[arg-type]
