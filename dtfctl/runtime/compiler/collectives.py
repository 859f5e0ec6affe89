"""Collectives as two nodes: one that begins, and one that waits as a receive does.

A plan runs everything it can before it waits for a receive. So a group computes while its members do, and several
computations go on at a time, in whatever order the members begin them. What a conditional of version 1 may leave out
stays one node: a receive waits also where its branch is not taken, and nobody would send it anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TypeAlias

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.structural_ops import (
    COLLECTIVE_START,
    COLLECTIVES,
    CONDITIONAL_ATTR,
    EXITS,
    MERGES,
    SWITCHES_OF_ANY,
)

_SEED = 0x8774AA605C729C72
_LIMIT = 1 << 64
_Predicate: TypeAlias = tuple[Node, int, int]
"""What decides between the outputs of a Switch: a value, and how many outputs there are."""
_Taken: TypeAlias = frozenset[tuple[_Predicate, int]]
"""Which outputs must be the ones that are taken."""


def mark_conditional(graph: NodeGraph) -> None:
    """Mark each collective that runs only where some Switch takes one of its ways.

    Args:
        graph: of all tasks, with ranks: a Switch may be elsewhere.
    """
    ops = {node.op for node in graph}
    if not ops & COLLECTIVES or not ops & SWITCHES_OF_ANY:
        return
    found: dict[Node, _Taken] = {}
    for node in sorted(graph, key=attrgetter("rank")):
        # What comes round a loop is not known yet, and says nothing more than what enters it.
        inputs = [_taken(found, edge) for edge in node.inputs if edge.node in found]
        if node.op in MERGES:
            found[node] = _merged(inputs)
        elif node.op in EXITS and node.inputs[0].node.op in SWITCHES_OF_ANY:
            # A loop ends.
            found[node] = found.get(node.inputs[0].node, frozenset())
        else:
            controls = (found[source] for source in node.control_inputs if source in found)
            found[node] = frozenset[tuple[_Predicate, int]]().union(*inputs, *controls)
        if found[node] and node.op in COLLECTIVES:
            marked = {**node.raw_attrs, CONDITIONAL_ATTR: graph_pb2.AttrValue(b=True)}
            node.turn_into(node.signature, marked)


def _taken(found: dict[Node, _Taken], edge: Edge) -> _Taken:
    source = edge.node
    if source.op not in SWITCHES_OF_ANY:
        return found[source]
    decides = source.inputs[1]
    while decides.node.op == "Identity":
        decides = decides.node.inputs[0]
    predicate = decides.node, decides.slot, len(source.output_types)
    return found[source] | {(predicate, edge.slot)}


def _merged(inputs: Sequence[_Taken]) -> _Taken:
    """Find what must be taken for one of several inputs to be there: nothing of a Switch whose every way leads here."""
    every = frozenset[tuple[_Predicate, int]]().union(*inputs)
    ways: dict[_Predicate, set[int]] = {}
    for predicate, slot in every:
        ways.setdefault(predicate, set()).add(slot)
    return frozenset((predicate, slot) for predicate, slot in every if len(ways[predicate]) < predicate[2])


def split_collectives(graph: NodeGraph) -> None:
    """Split each collective of a device's part in two: the one that waits keeps the name."""
    for node in [node for node in graph if node.op in COLLECTIVES and CONDITIONAL_ATTR not in node.raw_attrs]:
        start = _start_of(node)
        graph.add(start)
        device = graph_pb2.AttrValue(s=node.device.encode())
        node.turn_into(
            get_signature("_Recv"),
            {
                "tensor_name": graph_pb2.AttrValue(s=start.name.encode()),
                "tensor_type": node.raw_attrs["T"],
                "send_device": device,
                "send_device_incarnation": graph_pb2.AttrValue(i=0),
                "recv_device": device,
                "client_terminated": graph_pb2.AttrValue(b=False),
            },
        )
        node.inputs, node.control_inputs = [], [start]


def _start_of(node: Node) -> Node:
    types = graph_pb2.AttrValue()
    types.list.SetInParent()
    types.list.type.extend(edge.dtype.base_dtype.as_datatype_enum for edge in node.inputs)  # type: ignore[misc]
    attrs = {**node.raw_attrs, "Targs": types, "_op": graph_pb2.AttrValue(s=node.op.encode())}
    attrs["_key"] = graph_pb2.AttrValue(s=f"{node.device};{0:016x};{node.device};{node.name}/start;".encode())
    inputs = [Edge(edge.node, edge.slot) for edge in node.inputs]
    name, controls = f"{node.name}/start", list(node.control_inputs)
    return make_node(name, COLLECTIVE_START, attrs, inputs, controls, device=node.device, rank=node.rank)


def graph_key_of(graphs: Iterable[NodeGraph]) -> int:
    """Make the key of a graph that was given none, from its parts, as TensorFlow's masters do.

    Their servers and ours agree on the steps of a graph by it (runtime/collective/step_ids.py). 0 where nothing is
    computed in groups.
    """
    instances: set[int] = set()
    has_inputs = False
    for graph in graphs:
        for node in graph:
            if node.op in COLLECTIVES:
                stated = node.raw_attrs.get("instance_key")
                has_inputs |= stated is None
                instances |= set() if stated is None else {stated.i}
            elif (body := graph.library.find(node.op)) is not None:
                for inner in body.node_def:
                    has_inputs |= inner.op in COLLECTIVES and "instance_key" not in inner.attr
                    if inner.op in COLLECTIVES and "instance_key" in inner.attr:
                        instances.add(inner.attr["instance_key"].i)
    if not instances:
        return _SEED - _LIMIT if has_inputs else 0
    key = _SEED
    for instance in sorted(instances):
        key = (instance % _LIMIT ^ (key + 0x9E3779B97F4A7800 + (instance << 10) + (instance % _LIMIT >> 4))) % _LIMIT
    return key - _LIMIT if key >> 63 else key
