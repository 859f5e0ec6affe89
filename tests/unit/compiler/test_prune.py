"""Pruning: what a step needs, and TensorFlow's messages for requests that make no sense."""

from __future__ import annotations

import numpy as np
import pytest

from dtfctl.runtime.compiler.prune import check_partial_fetches, prune
from dtfctl.runtime.compiler.signature import signature_of
from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError, OpError
from dtfctl.runtime.framework.node_graph import NodeGraph
from tests.unit.compiler.harness import TWO_TASKS, Cluster
from tests.unit.executor.harness import GraphText

CLIENT = TWO_TASKS[0]


def graph() -> NodeGraph:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.const("c", 2.0, "float32", after=["x"])
    g.add("y", "AddV2", "x", "c", T="float32")
    g.add("z", "Neg", "y", T="float32")
    g.add("side", "NoOp", "^y")
    return NodeGraph.from_graph_def(g.proto)


def names(feeds: list[str], fetches: list[str], targets: list[str]) -> set[str]:
    return set(prune(graph(), feeds, fetches, targets, CLIENT, 7).nodes)


def test_only_what_is_needed_is_kept() -> None:
    assert names([], ["c:0"], []) == {"x", "c", "_send_c_0"}
    assert names(["y:0"], ["z:0"], []) == {"_recv_y_0", "z", "_send_z_0"}
    assert names([], [], ["side"]) == {"x", "c", "y", "side"}
    assert names([], [], ["side:0"]) == {"x", "c", "y", "side"}


def test_a_fed_placeholder_hands_over_its_control_edges_and_another_node_does_not() -> None:
    step = prune(graph(), ["x:0"], ["z:0"], [], CLIENT, 7)
    assert "x" not in step.nodes
    assert step.nodes["c"].control_inputs == [step.nodes["_recv_x_0"]]
    step = prune(graph(), ["y:0"], [], ["side"], CLIENT, 7)
    assert [n.name for n in step.nodes["side"].control_inputs] == ["y"]


def test_feeds_and_fetches_are_client_terminated_transfers_on_the_client_device() -> None:
    step = prune(graph(), ["x:0"], ["z:0"], [], CLIENT, (1 << 64) - 5)
    for node, type_attr in ((step.nodes["_recv_x_0"], "tensor_type"), (step.nodes["_send_z_0"], "T")):
        assert node.device == CLIENT
        assert node.attr("client_terminated") is True
        assert node.attr(type_attr).name == "float32"
        assert node.attr("send_device_incarnation") == -5
    assert step.nodes["_recv_x_0"].attr("tensor_name") == b"x:0"


def test_the_graph_is_left_as_it_is() -> None:
    whole = graph()
    before = whole.to_graph_def()
    prune(whole, ["x:0"], ["z:0"], [], CLIENT, 7)
    assert whole.to_graph_def() == before


@pytest.mark.parametrize(
    ("feeds", "fetches", "targets", "error", "text"),
    [
        ([], [], [], InvalidArgumentError, "Must specify at least one target to fetch or execute."),
        (["x:0", "x:0"], ["y:0"], [], InvalidArgumentError, 'Endpoint "x:0" fed more than once.'),
        (["x", "x:0"], ["y:0"], [], InvalidArgumentError, 'Endpoint "x:0" fed more than once.'),
        (["x:0"], ["x:0"], [], InvalidArgumentError, "x:0 is both fed and fetched."),
        (["w:0"], ["y:0"], [], NotFoundError, "FeedInputs: unable to find feed output w:0"),
        (["x:1"], ["y:0"], [], InvalidArgumentError, "FeedInputs: x:1 should have output index < 1"),
        ([], ["w:0"], [], NotFoundError, "FetchOutputs node w:0: not found"),
        ([], ["y:3"], [], InvalidArgumentError, "FetchOutputs y:3: output index too large, must be < 1"),
        ([], ["side:0"], [], InvalidArgumentError, "Tried to fetch data for 'side:0', which produces no output"),
        ([], [], ["v", "w"], NotFoundError, "PruneForTargets: Some target nodes not found: v w "),
    ],
)
def test_messages(feeds: list[str], fetches: list[str], targets: list[str], error: type[OpError], text: str) -> None:
    with pytest.raises(error) as caught:
        names(feeds, fetches, targets)
    assert caught.value.message.startswith(text)


def test_partial_fetches() -> None:
    whole = graph()
    check_partial_fetches(whole, ["z:0"], fed=["x:0"], pending=[])
    check_partial_fetches(whole, ["z:0"], fed=["y:0"], pending=["x:0"])
    with pytest.raises(InvalidArgumentError, match="Fetch z:0 can't be computed from the feeds that have been fed"):
        check_partial_fetches(whole, ["z:0"], fed=[], pending=["x:0"])
    with pytest.raises(NotFoundError):
        check_partial_fetches(whole, ["nobody:0"], fed=[], pending=[])


def test_signatures_do_not_depend_on_order() -> None:
    one = signature_of(["b", "a"], ["d", "c", "d"], ["f", "e"])
    assert one == signature_of(["a", "b"], ["c", "d"], ["e", "f", "e"])
    assert one != signature_of(["a", "b"], ["c", "d"], ["e", "f"], partial=True)
    assert one != signature_of(["a"], ["c", "d"], ["e", "f"])


def test_a_user_node_may_have_the_name_of_an_endpoint() -> None:
    g = GraphText()
    g.const("a", 1.0, "float32")
    g.add("_send_a_0", "Neg", "a", T="float32")
    assert Cluster(g.proto).run(["a:0", "_send_a_0:0"]) == [1.0, -1.0]
    assert Cluster(g.proto).run(["_send_a_0:0"], {"a:0": np.float32(4)}) == [-4.0]
