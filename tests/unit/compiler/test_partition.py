"""What the comparisons with TensorFlow's partitions do not show."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dtfctl.runtime.compiler.compile import CompileOptions
from dtfctl.runtime.compiler.order import assign_ranks, find_frames, topological_order
from dtfctl.runtime.compiler.partition import split_by_task
from dtfctl.runtime.executor.schedule import sequential_order
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from dtfctl.runtime.framework.node_graph import NodeGraph
from tests.unit.compiler.harness import PS, TWO_TASKS, WORKER, Cluster, device_set
from tests.unit.executor.harness import GraphText


def two_tasks() -> GraphText:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("y", "Exp", "x", T="float32")
    g.proto.node[-1].device = "/job:ps"
    g.add("z", "Neg", "y", T="float32")
    return g


def test_floats_may_travel_with_half_their_bits() -> None:
    options = CompileOptions()
    options.graph_options.enable_bfloat16_sendrecv = True
    g = two_tasks()
    g.proto.node[1].op, g.proto.node[2].op = "Neg", "Abs"
    cluster = Cluster(g.proto, TWO_TASKS, options=options)
    parts = cluster.parts(["x:0"], ["z:0"], [])
    types = {n.attr("T").name for p in parts.values() for n in p if n.op == "_Send" and not n.attr("client_terminated")}
    assert types == {"bfloat16"}
    # 1 + 2**-8 needs nine bits of mantissa, one more than a bfloat16 has.
    assert cluster.run(["z:0"], {"x:0": np.float32(1 + 2**-8)}) == [1.0]


def test_ranks_are_one_topological_order_of_all_parts_and_random_graphs_never_wait_for_each_other() -> None:
    rng = random.Random(5)
    for _ in range(20):
        g = GraphText()
        names = ["x"]
        g.add("x", "Placeholder", dtype="float32")
        for i in range(40):
            g.add(f"n{i}", "AddV2", rng.choice(names), rng.choice(names), T="float32")
            g.proto.node[-1].device = rng.choice(["/job:ps", "/job:worker"])
            names.append(f"n{i}")
        fetches = [f"{n}:0" for n in names[-5:]]
        alone = Cluster(g.proto, TWO_TASKS[:1], seed=0).run(fetches, {"x:0": np.float32(1)})
        spread = Cluster(g.proto, TWO_TASKS).run(fetches, {"x:0": np.float32(1)})
        assert [float(v) for v in spread] == [float(v) for v in alone]


def test_sends_to_other_devices_start_before_local_work() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("local", "Neg", "x", T="float32")
    g.add("sent", "Neg", "x", T="float32")
    g.add("there", "Neg", "sent", T="float32")
    graph = NodeGraph.from_graph_def(g.proto)
    for node in graph:
        node.device = "/job:ps" if node.name == "there" else "/job:worker"
    assert [n.name for n in assign_ranks(graph)] == ["x", "sent", "local", "there"]


def test_parameters_are_sent_and_waited_for_in_the_order_in_which_they_are_needed() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    for n in (2, 0, 1):
        g.add(f"v{n}", "VariableV2", shape=[], dtype="float32")
        g.add(f"r{n}", "Identity", f"v{n}", T="float32")
    g.add("y0", "Mul", "x", "r0", T="float32")
    g.add("y1", "Mul", "y0", "r1", T="float32")
    g.add("y2", "Mul", "y1", "r2", T="float32")
    graph = NodeGraph.from_graph_def(g.proto)
    for node in graph:
        node.device = PS if node.name[0] in "vr" else WORKER
    parts = split_by_task(graph, {PS: 1, WORKER: 2})
    (ps,), (worker,) = ([p for p in parts.values() if any(n.device == place for n in p)] for place in (PS, WORKER))
    orders = {
        where: sequential_order(part, lambda node: False).order for where, part in (("ps", ps), ("worker", worker))
    }
    sent = [node.text_attr("_src") for node in orders["ps"] if node.op == "_Send"]
    assert sent == ["r0", "r1", "r2"]
    # Each is waited for when all is done that can be done without.
    steps = [node.text_attr("_src") if node.op == "_Recv" else node.name for node in orders["worker"]]
    assert steps == ["x", "r0", "y0", "r1", "y1", "r2", "y2"]


def test_a_loop_over_devices_needs_a_condition() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("e", "Enter", "x", T="float32", frame_name="f", is_constant=False, parallel_iterations=10)
    g.add("m", "Merge", "e", "n", T="float32", N=2)
    g.add("a", "Neg", "m", T="float32")
    g.add("n", "NextIteration", "a", T="float32")
    graph = NodeGraph.from_graph_def(g.proto)
    for node in graph:
        node.device = TWO_TASKS[1] if node.name == "a" else TWO_TASKS[0]
    with pytest.raises(InvalidArgumentError, match="A cross-device loop must have a pivot predicate: f"):
        split_by_task(graph, device_set(*TWO_TASKS).incarnations())


def test_inputs_from_different_frames() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("e", "Enter", "x", T="float32", frame_name="f", is_constant=False, parallel_iterations=10)
    g.add("a", "AddV2", "e", "x", T="float32")
    with pytest.raises(InvalidArgumentError, match="The node 'a' has inputs from different frames"):
        find_frames(NodeGraph.from_graph_def(g.proto))


def test_an_exit_of_no_loop() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("e", "Exit", "x", T="float32")
    with pytest.raises(InvalidArgumentError, match="exits a loop that was not entered"):
        find_frames(NodeGraph.from_graph_def(g.proto))


def test_a_node_without_a_device_cannot_be_split() -> None:
    graph = NodeGraph.from_graph_def(two_tasks().proto)
    with pytest.raises(InternalError, match="is not placed"):
        split_by_task(graph, {})


def test_parts_carry_versions_and_only_the_functions_they_call() -> None:
    g = two_tasks()
    g.proto.versions.producer = 2474
    for name, callee in (("f", "g"), ("g", ""), ("unused", "")):
        function = g.proto.library.function.add()
        function.signature.name = name
        if callee:
            function.node_def.add(name="n", op=callee)
    g.proto.node.add(name="call", op="f", device="/job:ps")
    parts = Cluster(g.proto, TWO_TASKS).parts(["x:0"], ["z:0"], ["call"])
    by_task = {device.split("/device:")[0]: part.to_graph_def() for device, part in parts.items()}
    assert sorted(f.signature.name for f in by_task[PS].library.function) == ["f", "g"]
    assert not by_task[WORKER].library.function
    assert {p.versions.producer for p in by_task.values()} == {2474}


def test_topological_order_of_loops_ignores_only_their_back_edges() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("a", "Neg", "x", T="float32")
    graph = NodeGraph.from_graph_def(g.proto)
    graph.nodes["x"].control_inputs.append(graph.nodes["a"])
    with pytest.raises(InvalidArgumentError, match="2 nodes in a cycle"):
        topological_order(graph)
