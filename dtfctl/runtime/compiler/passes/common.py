"""Common subexpressions: nodes that compute the same from the same become one."""

from __future__ import annotations

import hashlib

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.order import inputs_first
from dtfctl.runtime.compiler.passes.rewrite import is_pure, reconnect
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph

_LONG = 256


def merge_common(graph: NodeGraph) -> bool:
    """Let consumers of equal nodes take the first one's outputs; True when there were any.

    Equal are nodes of one device, op, attributes, inputs and control inputs; of commutative ops the inputs' order does
    not count.
    """
    seen: dict[tuple[object, ...], Node] = {}
    moved: dict[Edge, Edge] = {}
    same: dict[Node, Node] = {}
    for node in inputs_first(graph):
        if not is_pure(node) or not node.output_types:
            continue
        inputs = [moved.get(e, e) for e in node.inputs]
        if node.signature.is_commutative and len(inputs) == 2:
            inputs.sort(key=lambda e: (e.node.name, e.slot))
        controls = frozenset(same.get(n, n) for n in node.control_inputs)
        key = (node.op, node.device, tuple(inputs), controls, _attrs_key(node))
        first = seen.setdefault(key, node)
        if first is not node:
            same[node] = first
            for slot in range(len(node.output_types)):
                moved[Edge(node, slot)] = Edge(first, slot)
    reconnect(graph, moved)
    for node in graph:
        if any(n in same for n in node.control_inputs):
            node.control_inputs = list(dict.fromkeys(same.get(n, n) for n in node.control_inputs))
    return bool(moved)


def _attrs_key(node: Node) -> tuple[object, ...]:
    return tuple(
        (name, _value_key(value)) for name, value in sorted(node.raw_attrs.items()) if not name.startswith("_")
    )


def _value_key(value: graph_pb2.AttrValue) -> bytes:
    data = value.SerializeToString(deterministic=True)
    return data if len(data) < _LONG else hashlib.blake2b(data, digest_size=32).digest()
