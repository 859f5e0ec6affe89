"""Placement: preferences, groups, resources, soft placement, and TensorFlow's messages."""

from __future__ import annotations

import pytest

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.devices import DeviceSet
from dtfctl.runtime.compiler.place import place, placement_log
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import NodeGraph
from tests.unit.compiler.harness import PS, WORKER, device_set
from tests.unit.executor.harness import GraphText

W0, P0 = f"{WORKER}/device:CPU:0", f"{PS}/device:CPU:0"
W1, P1 = f"{WORKER}/device:CPU:1", f"{PS}/device:CPU:1"
WG = f"{WORKER}/device:GPU:0"


class Placing(GraphText):
    """A graph with devices asked for and colocations."""

    def at(self, device: str, *classes: str) -> Placing:
        node = self.proto.node[-1]
        node.device = device
        if classes:
            node.attr["_class"].list.s.extend(f"loc:@{c}".encode() for c in classes)
        return self

    def place(self, devices: DeviceSet | None = None, soft: bool = False, pinned: dict[str, str] | None = None) -> dict:
        return place(NodeGraph.from_graph_def(self.proto), devices or device_set(W0, W1, P0, P1), pinned, soft)


def test_without_a_wish_the_masters_first_cpu() -> None:
    g = Placing()
    g.const("a", 1.0, "float32")
    g.add("b", "Neg", "a", T="float32")
    assert g.place() == {"a": W0, "b": W0}
    assert g.place(device_set(P0, W0)) == {"a": P0, "b": P0}


def test_gpu_before_cpu_where_a_kernel_is() -> None:
    g = Placing()
    g.add("p", "Placeholder", dtype="float32")
    g.add("n", "NoOp")
    g.add("f", "Neg", "p", T="float32")
    assert g.place(device_set(W0, WG, P0))["n"] == WG
    g.at("/cpu:0")
    assert g.place(device_set(W0, WG, P0))["f"] == W0


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ("/job:ps", P0),
        ("/job:ps/task:0", P0),
        ("/cpu:1", W1),
        ("/device:CPU:1", W1),
        ("/job:ps/cpu:1", P1),
        ("/job:ps/replica:0/task:0/device:CPU:*", P0),
        (P1, P1),
    ],
)
def test_partial_names(asked: str, got: str) -> None:
    g = Placing()
    g.const("a", 1.0, "float32")
    g.add("b", "Neg", "a", T="float32")
    g.at(asked)
    assert g.place()["b"] == got


def test_generators_go_to_their_only_consumer_and_shapes_to_their_input() -> None:
    g = Placing()
    g.const("a", 1.0, "float32")
    g.add("b", "Neg", "a", T="float32")
    g.at("/job:ps")
    g.add("s", "Shape", "b", T="float32", out_type="int32")
    g.const("c", 1.0, "float32")
    g.add("d", "Neg", "c", T="float32")
    g.add("e", "Neg", "c", T="float32")
    g.at("/job:ps")
    placed = g.place()
    assert (placed["a"], placed["s"], placed["c"]) == (P0, P0, W0)


def test_colocation_merges_partial_names_also_through_names_that_do_not_exist() -> None:
    g = Placing()
    g.const("a", 1.0, "float32")
    g.at("/job:ps", "group")
    g.const("b", 1.0, "float32")
    g.at("/cpu:1", "group")
    g.const("c", 1.0, "float32")
    g.at("", "b")
    assert g.place() == {"a": P1, "b": P1, "c": P1}


def test_conflicting_colocation_is_an_error_or_with_soft_placement_ignored() -> None:
    g = Placing()
    g.const("a", 1.0, "float32")
    g.at("/job:ps")
    g.const("b", 1.0, "float32")
    g.at("/job:worker", "a")
    text = (
        "Cannot colocate nodes {{colocation_node a}} and {{colocation_node b}}: Cannot merge devices with "
        "incompatible jobs: '/job:ps' and '/job:worker'"
    )
    with pytest.raises(InvalidArgumentError) as caught:
        g.place()
    assert caught.value.message == text
    assert g.place(soft=True) == {"a": P0, "b": W0}


def test_a_consumer_of_a_reference_or_resource_goes_where_that_is() -> None:
    g = Placing()
    g.add("v", "VariableV2", dtype="float32", shape=[])
    g.at("/job:ps")
    g.const("one", 1.0, "float32")
    g.add("as", "Assign", "v", "one", T="float32")
    g.at("/job:worker")
    g.add("h", "VarHandleOp", dtype="float32", shape=[])
    g.at("/job:ps/cpu:1")
    g.add("r", "ReadVariableOp", "h", dtype="float32")
    g.at("/job:worker")
    g.add("read", "Identity", "v", T="float32")
    g.at("/job:worker")
    placed = g.place()
    assert (placed["as"], placed["r"], placed["read"]) == (P0, P1, W0)


def test_a_group_of_resources_of_two_devices_is_refused() -> None:
    g = Placing()
    g.add("h", "VarHandleOp", dtype="float32", shape=[])
    g.at("/job:ps")
    g.add("k", "VarHandleOp", dtype="float32", shape=[])
    g.at("/job:worker", "h")
    with pytest.raises(InvalidArgumentError, match="incompatible jobs: '/job:ps' and '/job:worker'"):
        g.place()


def test_datasets_of_a_chain_share_a_device() -> None:
    g = Placing()
    g.const("n", 3, "int64")
    g.add("r", "RangeDataset", "n", "n", "n", output_types=["int64"], output_shapes=[[]])
    g.at("/job:ps")
    g.add("t", "TakeDataset", "r", "n", output_types=["int64"], output_shapes=[[]])
    assert g.place()["t"] == P0


def test_soft_placement_drops_kind_and_number_but_not_the_task() -> None:
    g = Placing()
    g.const("a", 1.0, "float32")
    g.at("/job:ps/device:GPU:3")
    with pytest.raises(InvalidArgumentError) as caught:
        g.place(device_set(W0, P0))
    assert caught.value.message == (
        "Cannot assign a device for operation a: {{node a}} was explicitly assigned to /job:ps/device:GPU:3 but "
        f"available devices are [ {P0}, {W0} ]. Make sure the device specification refers to a valid device."
    )
    assert g.place(soft=True) == {"a": P0}
    g.at("/job:nope/task:3")
    with pytest.raises(InvalidArgumentError, match="was explicitly assigned to /job:nope/task:3 but available devices"):
        g.place(soft=True)


def test_a_kernel_that_does_not_exist_on_the_kind_asked_for() -> None:
    g = Placing()
    g.const("s", 1.0, "float32")
    g.add("w", "WriteFile", "f", "f")
    g.at("/device:GPU:0")
    g.proto.node.add(name="f", op="Placeholder").attr["dtype"].type = 7
    with pytest.raises(InvalidArgumentError, match="Could not satisfy explicit device specification '/device:GPU:0'"):
        g.place(device_set(W0, WG))
    assert g.place(device_set(W0, WG), soft=True)["w"] == W0


def test_malformed_names_say_which_node() -> None:
    g = Placing()
    g.const("a", 1.0, "float32")
    g.at("/gob:ps")
    with pytest.raises(InvalidArgumentError, match=r"Malformed device specification '/gob:ps' in node: \{\{node a"):
        g.place()


def test_stateful_nodes_stay_when_the_graph_grows() -> None:
    g = Placing()
    g.add("v", "VariableV2", dtype="float32", shape=[])
    assert g.place(pinned={"v": P1}) == {"v": P1}
    g.add("read", "Identity", "v", T="float32")
    g.const("one", 1.0, "float32")
    g.add("as", "Assign", "v", "one", T="float32")
    placed = g.place(pinned={"v": P1})
    assert (placed["v"], placed["as"], placed["one"]) == (P1, P1, P1)


def test_device_filters_hide_tasks_but_never_the_masters() -> None:
    other = "/job:worker/replica:0/task:1/device:CPU:0"
    devices = device_set(W0, other, P0, filters=["/job:ps"])
    assert devices.names() == [P0, W0]
    with pytest.raises(InvalidArgumentError, match="Bad device filter"):
        device_set(W0, filters=["nonsense"])


def test_the_placement_log() -> None:
    g = Placing()
    g.const("a", 1.0, "float32")
    graph = NodeGraph.from_graph_def(g.proto)
    assert placement_log(graph, {"a": W0}) == [f"a: (Const): {W0}"]


def test_a_library_function_goes_anywhere() -> None:
    graph_def = graph_pb2.GraphDef()
    graph_def.library.function.add().signature.name = "f"
    graph_def.node.add(name="call", op="f", device="/job:ps")
    assert place(NodeGraph.from_graph_def(graph_def), device_set(W0, P0)) == {"call": P0}
