"""Orders in which passes meet nodes."""

from __future__ import annotations

import pytest

from dtfctl.runtime.compiler.order import inputs_first
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import NodeGraph
from tests.unit.executor.harness import GraphText


def graph() -> NodeGraph:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("y", "Neg", "x", T="float32")
    g.const("c", 2.0, "float32", after=["y"])
    g.add("z", "AddV2", "c", "x", T="float32")
    return NodeGraph.from_graph_def(g.proto)


def test_an_order_with_inputs_first_is_kept() -> None:
    assert [n.name for n in inputs_first(graph())] == ["x", "y", "c", "z"]


@pytest.mark.parametrize("names", [["z", "c", "y", "x"], ["c", "x", "y", "z"], ["x", "z", "y", "c"]])
def test_another_order_is_mended(names: list[str]) -> None:
    turned = graph()
    turned.nodes = {name: turned.nodes[name] for name in names}
    order = [n.name for n in inputs_first(turned)]
    assert sorted(order) == ["c", "x", "y", "z"]
    assert order.index("x") < order.index("y") < order.index("c") < order.index("z")


def test_a_cycle_is_found() -> None:
    turned = graph()
    turned.nodes["x"].control_inputs.append(turned.nodes["z"])
    with pytest.raises(InvalidArgumentError, match="cycle"):
        inputs_first(turned)
