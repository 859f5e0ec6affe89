"""Nodes of one GraphDef that say the same share what it comes to; nothing done to one shows in another."""

from __future__ import annotations

import pytest

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.expand import become
from dtfctl.runtime.compiler.optimize import PLAIN_PLAN, Rewrites, optimize
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import NodeGraph


def graph_def(*types: dtypes.DType) -> graph_pb2.GraphDef:
    """An Identity of each type, of a placeholder of its own."""
    out = graph_pb2.GraphDef()
    for i, dtype in enumerate(types):
        number = dtype.as_datatype_enum
        out.node.add(name=f"x{i}", op="Placeholder").attr["dtype"].type = number
        out.node.add(name=f"y{i}", op="Identity", input=[f"x{i}"]).attr["T"].type = number
    return out


def test_nodes_that_say_the_same_share_their_attributes_and_others_do_not() -> None:
    graph = NodeGraph.from_graph_def(graph_def(dtypes.float32, dtypes.float32, dtypes.int32))
    first, second, other = (graph.nodes[f"y{i}"] for i in range(3))
    assert first.raw_attrs is second.raw_attrs
    assert other.raw_attrs is not first.raw_attrs
    assert [n.output_types for n in (first, second, other)] == [
        (dtypes.float32,),
        (dtypes.float32,),
        (dtypes.int32,),
    ]


def test_what_one_becomes_the_others_do_not() -> None:
    graph = NodeGraph.from_graph_def(graph_def(dtypes.float32, dtypes.float32))
    first, second = graph.nodes["y0"], graph.nodes["y1"]
    become(first, "IdentityN", [dtypes.int32])
    assert first.output_types == (dtypes.int32,)
    assert second.op == "Identity" and second.output_types == (dtypes.float32,) and list(second.raw_attrs) == ["T"]


def test_they_travel_as_they_came() -> None:
    sent = graph_def(dtypes.float32, dtypes.float32, dtypes.int32)
    sent.node[1].device = "/device:CPU:0"
    sent.node[3].input.append("^y0")
    graph = NodeGraph.from_graph_def(sent)
    back = graph.to_graph_def()
    assert {n.name: (n.op, list(n.input), n.device, n.attr["T"].type) for n in back.node if n.op == "Identity"} == {
        n.name: (n.op, list(n.input), n.device, n.attr["T"].type) for n in sent.node if n.op == "Identity"
    }
    optimize(graph, ["y0", "y1", "y2"], Rewrites(False, False, False, False, False, False))
    assert all(n.attr[PLAIN_PLAN].b for n in graph.to_graph_def().node)
    assert PLAIN_PLAN not in NodeGraph.from_graph_def(sent).nodes["y0"].raw_attrs


def test_what_is_wrong_with_a_node_is_said_of_it_and_not_of_the_one_before() -> None:
    bad = graph_def(dtypes.float32, dtypes.float32)
    del bad.node[3].attr["T"]
    with pytest.raises(InvalidArgumentError, match=r"missing attr 'T'.*y1"):
        NodeGraph.from_graph_def(bad)
