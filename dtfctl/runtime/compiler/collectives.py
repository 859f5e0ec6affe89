"""Collectives as two nodes: one that begins, and one that waits as a receive does.

A plan runs everything it can before it waits for a receive. So a group computes while its members do, and several
computations go on at a time, in whatever order the members begin them.
"""

from __future__ import annotations

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.op_signature import get_signature
from dtfctl.runtime.framework.structural_ops import COLLECTIVE_START, COLLECTIVES


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
