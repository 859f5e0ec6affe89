"""Nodes as bytes: what is written and read is what messages would have said."""

from __future__ import annotations

import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.graph_wire import NodeWriter, nodes_of
from dtfctl.runtime.framework.node_graph import NodeGraph

NAMES = ["a", "b" * 127, "c" * 128, "ü" * 100, "d" * 20_000]
ATTRS = {
    "small": graph_pb2.AttrValue(i=-1),
    "n" * 200: graph_pb2.AttrValue(s=b"x" * 300),
    "empty": graph_pb2.AttrValue(),
}


def message() -> graph_pb2.GraphDef:
    graph = graph_pb2.GraphDef()
    for i, name in enumerate(NAMES):
        graph.node.add(name=name, op=f"Op{i}" * (i * 20 + 1), device="/cpu:0" * i, input=NAMES[:i], attr=ATTRS)
    graph.node.add()
    graph.node.add(device="/cpu:0")
    return graph


def test_written_nodes_are_those_of_messages() -> None:
    writer = NodeWriter()
    for node in message().node:
        writer.add(node.name, node.op, node.input, writer.rest(node.device, dict(node.attr)))
    written = graph_pb2.GraphDef()
    writer.write(written)
    assert written == message()


def test_read_nodes_are_those_of_messages() -> None:
    graph = message()
    graph.versions.producer = 7
    graph.library.function.add().signature.name = "f"
    graph.node[1].experimental_debug_info.original_node_names.append("somewhere")
    read = list(nodes_of(graph))
    assert len(read) == len(graph.node)
    for node, (name, inputs, rest) in zip(graph.node, read):
        again = graph_pb2.NodeDef.FromString(rest)
        assert not again.name and not again.input
        again.name = name
        again.input.extend(inputs)
        assert again == node


def test_attributes_made_for_one_node_are_not_anothers() -> None:
    with tf.Graph().as_default() as graph:
        for i in range(50):
            tf.zeros([i + 1], name=f"z{i}")
    shapes = [
        node.attr["_output_shapes"].list.shape[0].dim[0].size
        for node in graph.as_graph_def(add_shapes=True).node
        if node.name.startswith("z") and "/" not in node.name
    ]
    assert shapes == [i + 1 for i in range(50)]


@pytest.mark.parametrize("count", [1, 3])
def test_nodes_that_are_alike_say_so_again(count: int) -> None:
    with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
        x = tf.placeholder(tf.float32, name="x" * 200)
        for _ in range(count):
            with tf.control_dependencies([x]):
                x = tf.split(x, 2)[1] + 1.0
    sent = graph.as_graph_def()
    back = NodeGraph.from_graph_def(sent).to_graph_def()
    for node in back.node:
        original = graph.get_operation_by_name(node.name).node_def
        assert (node.op, node.device, list(node.input)) == (original.op, original.device, list(original.input))
        assert all(node.attr[name] == value for name, value in original.attr.items())
