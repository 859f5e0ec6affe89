"""Collectives as two nodes: one that begins, and one that waits as a receive does.

A plan runs everything it can before it waits for a receive. So a group computes while its members do, and several
computations go on at a time, in whatever order the members begin them.
"""

from __future__ import annotations

from collections.abc import Iterable

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.structural_ops import COLLECTIVE_START, COLLECTIVES

_SEED = 0x8774AA605C729C72
_LIMIT = 1 << 64


def split_collectives(graph: NodeGraph) -> None:
    """Split each collective of a device's part in two: the one that waits keeps the name."""
    for node in [node for node in graph if node.op in COLLECTIVES]:
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
