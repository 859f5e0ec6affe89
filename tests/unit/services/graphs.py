"""Small GraphDefs, written as a client would send them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.attrs import encode_attr
from dtfctl.runtime.framework.tensor_codec import encode_tensor

FLOAT = graph_pb2.AttrValue(type=1)


class GraphBuilder:
    """Adds nodes by hand; defaults of attributes are left to the server."""

    def __init__(self) -> None:
        self.graph = graph_pb2.GraphDef()
        self.graph.versions.producer = 2474

    def node(self, name: str, op: str, inputs: tuple[str, ...] = (), device: str = "", **attrs: Any) -> str:
        node = self.graph.node.add(name=name, op=op, input=inputs, device=device)
        for key, value in attrs.items():
            node.attr[key].CopyFrom(value if isinstance(value, graph_pb2.AttrValue) else encode_attr("type", value))
        return name

    def placeholder(self, name: str, device: str = "") -> str:
        return self.node(name, "Placeholder", device=device, dtype=FLOAT)

    def const(self, name: str, value: Any, device: str = "") -> str:
        tensor = encode_tensor(np.asarray(value, np.float32))
        return self.node(name, "Const", device=device, dtype=FLOAT, value=graph_pb2.AttrValue(tensor=tensor))

    def binary(self, name: str, op: str, a: str, b: str, device: str = "") -> str:
        return self.node(name, op, (a, b), device, T=FLOAT)

    def variable(self, name: str, shape: tuple[int, ...] = (), device: str = "") -> str:
        proto = graph_pb2.AttrValue()
        proto.shape.SetInParent()
        for size in shape:
            proto.shape.dim.add(size=size)
        return self.node(name, "VariableV2", device=device, dtype=FLOAT, shape=proto)

    def assign(self, name: str, variable: str, value: str, device: str = "") -> str:
        return self.node(name, "Assign", (variable, value), device, T=FLOAT)

    def queue(self, name: str, device: str = "") -> str:
        types = graph_pb2.AttrValue()
        types.list.type.append(1)
        return self.node(name, "FIFOQueueV2", device=device, component_types=types)

    def dequeue(self, name: str, queue: str, device: str = "") -> str:
        types = graph_pb2.AttrValue()
        types.list.type.append(1)
        return self.node(name, "QueueDequeueV2", (queue,), device, component_types=types)

    def enqueue(self, name: str, queue: str, value: str, device: str = "") -> str:
        types = graph_pb2.AttrValue()
        types.list.type.append(1)
        return self.node(name, "QueueEnqueueV2", (queue, value), device, Tcomponents=types)


def mul_graph(device: str = "") -> graph_pb2.GraphDef:
    """a, b -> y = a * b, on `device`; placeholders anywhere."""
    g = GraphBuilder()
    g.placeholder("a")
    g.placeholder("b")
    g.binary("y", "Mul", "a", "b", device)
    return g.graph


def waiting_graph(device: str = "") -> graph_pb2.GraphDef:
    """q, and x = dequeue(q), which waits; put = enqueue(q, 1)."""
    g = GraphBuilder()
    g.queue("q", device)
    g.dequeue("x", "q", device)
    g.const("one", 1.0, device)
    g.enqueue("put", "q", "one", device)
    return g.graph
