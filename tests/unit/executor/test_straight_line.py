"""Straight-line plans: order, lifetimes, errors, dead receives, cancellation."""

from __future__ import annotations

import threading
import weakref

import numpy as np
import pytest

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.executor import Executor, KernelCache, StepTrace
from dtfctl.runtime.executor.binding import Environment
from dtfctl.runtime.executor.functions import FunctionRunner
from dtfctl.runtime.executor.schedule import sequential_order
from dtfctl.runtime.executor.straight_line import StraightLine
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from dtfctl.runtime.framework.node_graph import Edge, NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from tests.support.golden import cases
from tests.unit.executor.harness import DEVICE, GraphText, LocalRendezvous, Runner, client_graph

F = np.float32
TRANSFER = {"send_device": "/a", "send_device_incarnation": -1, "recv_device": "/b"}


def variable_graph() -> GraphText:
    g = GraphText()
    g.add("v", "VariableV2", shape=[3], dtype="float32")
    g.const("zeros", np.zeros(3, F))
    g.add("init", "Assign", "v", "zeros", T="float32")
    g.add("read", "Identity", "v", T="float32")
    g.add("delta", "Placeholder", dtype="float32")
    g.add("add", "AssignAdd", "v", "delta", T="float32")
    g.add("twice", "AddV2", "read", "read", T="float32")
    return g


def test_updates_happen_in_place_once_nobody_holds_the_value() -> None:
    runner = Runner(variable_graph().proto)
    runner.run([], targets=["init"])
    runner.run([], {"delta:0": np.ones(3, F)}, ["add"])
    variable = runner.resources.names()
    assert variable == ["v"]
    held = runner.run(["v:0"])[0]
    runner.run([], {"delta:0": np.ones(3, F)}, ["add"])
    np.testing.assert_array_equal(held, np.ones(3, F))
    address = runner.run(["v:0"])[0].ctypes.data
    for _ in range(5):
        runner.run(["twice:0"], {"delta:0": np.ones(3, F)}, ["add"])
    after = runner.run(["v:0"])[0]
    assert after.ctypes.data == address
    np.testing.assert_array_equal(after, np.full(3, 7, F))


def test_uninitialized_variable_is_reported_where_it_is_read() -> None:
    runner = Runner(variable_graph().proto)
    with pytest.raises(FailedPreconditionError, match="Attempting to use uninitialized value v") as raised:
        runner.run(["twice:0"])
    assert raised.value.node == "read"
    with pytest.raises(FailedPreconditionError, match="uninitialized value v") as raised:
        runner.run([], {"delta:0": np.ones(3, F)}, ["add"])
    assert raised.value.node == "add"


def test_kernel_errors_are_located() -> None:
    g = GraphText()
    g.add("a", "Placeholder", dtype="float32")
    g.add("b", "Placeholder", dtype="float32")
    g.add("fine", "Neg", "a", T="float32")
    g.add("product", "MatMul", "fine", "b", T="float32")
    with pytest.raises(InvalidArgumentError) as raised:
        Runner(g.proto).run(["product:0"], {"a:0": np.ones((2, 3), F), "b:0": np.ones((2, 3), F)})
    assert raised.value.node == "product"
    assert "{{node product}}" in str(raised.value)


@pytest.mark.parametrize("machine", [False, True])
def test_an_error_does_not_keep_the_tensors_of_its_step(machine: bool) -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("y", "Neg", "x", T="float32")
    g.add("bad", "MatMul", "x", "y", T="float32")
    runner = Runner(g.proto)
    executor = runner.executor(["x:0"], ["bad:0", "y:0"])
    if machine:
        executor.plan = executor.planner.machine()
    rendezvous = LocalRendezvous()
    x = np.ones((2, 3), F)
    held = weakref.ref(x)
    rendezvous.send("client;x:0", x, False)
    with pytest.raises(InvalidArgumentError) as raised:
        executor.run(runner.step(rendezvous))
    del x, rendezvous
    assert raised.value.node == "bad"
    assert held() is None


def test_missing_kernel_is_reported_when_the_plan_is_made() -> None:
    g = GraphText()
    g.add("s", "Placeholder", dtype="string")
    g.add("bad", "Neg", "s", T="float32")
    g.proto.node[-1].attr["T"].type = 1
    g.proto.node[0].attr["dtype"].type = 1
    g.proto.node[-1].op = "Betainc"
    del g.proto.node[-1].input[:]
    g.proto.node[-1].input.extend(["s", "s", "s"])
    g.proto.node[-1].attr["T"].type = 1
    device = Device("/job:localhost/replica:0/task:0/device:TPU:0")
    graph = client_graph(NodeGraph.from_graph_def(g.proto), ["s:0"], ["bad:0"], ())
    with pytest.raises(NotFoundError, match="No OpKernel was registered to support Op 'Betainc'"):
        Executor(graph, device, ResourceManager(), KernelCache())


def test_cycle_is_refused() -> None:
    g = GraphText()
    g.add("a", "Neg", "b", T="float32")
    g.add("b", "Neg", "a", T="float32")
    g.proto.node[0].input[0] = "x"
    g.add("x", "Placeholder", dtype="float32")
    graph = NodeGraph.from_graph_def(g.proto)
    graph.nodes["a"].inputs[0] = Edge(graph.nodes["b"], 0)
    with pytest.raises(InvalidArgumentError, match="cycle"):
        Executor(graph, Device(DEVICE), ResourceManager(), KernelCache())


@pytest.mark.parametrize("name", ["model_cnn_adam", "train_adam_res", "tensor_array_v2"])
@pytest.mark.parametrize("chunk", [1, 7])
def test_chunks_pass_values_on(name: str, chunk: int) -> None:
    """A plan cut into small functions computes what one function does."""
    case = next(c for c in cases() if c.name == name)
    runner = Runner(case.graph_def())
    for step in case.steps():
        executor = runner.executor(list(step.feeds), step.fetches, step.targets)
        assert executor.plan.engine == "straight"
        executor.plan = executor.planner.straight(chunk_size=chunk)
        for fetch, value, want in zip(step.fetches, runner.run(step.fetches, step.feeds, step.targets), step.want):
            case.check(fetch, value, want)


def transfers() -> GraphText:
    """recv r -> neg -> send out; an independent const -> send early, ranked last."""
    g = GraphText()
    g.add("r", "_Recv", tensor_type="float32", tensor_name="r", **TRANSFER)
    g.add("fed", "_Recv", tensor_type="float32", tensor_name="fed:0", client_terminated=True, **TRANSFER)
    g.add("before", "Exp", "fed", T="float32")
    g.add("neg", "Neg", "r", T="float32")
    g.add("same", "Identity", "before", T="float32")
    g.const("one", F(1))
    g.add("kept", "Mul", "same", "one", T="float32")
    g.add("sum", "AddV2", "neg", "before", T="float32")
    g.add("out", "_Send", "sum", T="float32", tensor_name="out", **TRANSFER)
    g.add("live", "_Send", "before", T="float32", tensor_name="live", **TRANSFER)
    # Has nothing to do with the receive, but comes after it.
    g.add("unblock", "_Recv", tensor_type="float32", tensor_name="unblock", **TRANSFER)
    g.add("more", "AddV2", "unblock", "one", T="float32")
    g.add("most", "AddV2", "more", "same", T="float32")
    g.add("other", "_Send", "most", T="float32", tensor_name="other", **TRANSFER)
    # Each takes the other's place, and the last is wanted after the receive.
    g.add("first", "Neg", "kept", T="float32")
    g.add("second", "Sub", "first", "one", T="float32")
    g.add("chain", "AddV2", "second", "unblock", T="float32")
    g.add("chained", "_Send", "chain", T="float32", tensor_name="chained", **TRANSFER)
    g.add("after", "NoOp", "^neg")
    g.const("c", F(5), after=["after"])
    g.add("late", "_Send", "c", T="float32", tensor_name="late", **TRANSFER)
    return g


def key(name: str) -> str:
    return f"/a;{2**64 - 1:016x};/b;{name};0:0"


def run_transfers(chunk: int, dead: bool) -> dict[str, tuple[object, bool]]:
    graph = NodeGraph.from_graph_def(transfers().proto)
    for rank, node in enumerate(graph):
        node.rank = rank
    runner = Runner(graph_pb2.GraphDef())
    executor = Executor(graph, runner.device, runner.resources, runner.kernels)
    executor.plan = executor.planner.straight(chunk_size=chunk)
    rendezvous, token = LocalRendezvous(), CancellationToken()
    rendezvous.send("client;fed:0", np.asarray(F(0)), False)
    rendezvous.send(key("unblock"), np.asarray(F(10)), False)
    rendezvous.send(key("r"), None if dead else np.asarray(F(2)), dead)
    executor.run(runner.step(rendezvous, token))
    return {name: rendezvous.recv(key(name), token) for name in ("out", "live", "late", "other", "chained")}


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_receives_live_tensors(chunk: int) -> None:
    got = run_transfers(chunk, dead=False)
    assert {name: (float(value), dead) for name, (value, dead) in got.items()} == {  # type: ignore[arg-type]
        "out": (-1.0, False),
        "live": (1.0, False),
        "late": (5.0, False),
        "other": (12.0, False),
        "chained": (8.0, False),
    }


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_a_dead_tensor_kills_what_depends_on_it_and_nothing_else(chunk: int) -> None:
    got = run_transfers(chunk, dead=True)
    assert got["out"] == (None, True)
    assert got["late"] == (None, True)
    assert float(got["live"][0]) == 1.0 and not got["live"][1]  # type: ignore[arg-type]
    assert float(got["other"][0]) == 12.0 and not got["other"][1]  # type: ignore[arg-type]
    assert float(got["chained"][0]) == 8.0 and not got["chained"][1]  # type: ignore[arg-type]


def test_a_result_takes_the_local_of_an_operand_it_is_the_last_to_use() -> None:
    graph = NodeGraph.from_graph_def(transfers().proto)
    runner = Runner(graph_pb2.GraphDef())
    plan = Executor(graph, runner.device, runner.resources, runner.kernels).plan.general
    assert isinstance(plan, StraightLine)
    places = {node.name: place for (node, _), place in plan.places.items()}
    assert places["kept"] == places["first"] == places["second"]
    assert places["before"] not in (places["neg"], places["kept"])


def test_everything_that_can_run_before_a_receive_does() -> None:
    graph = NodeGraph.from_graph_def(transfers().proto)
    for rank, node in enumerate(graph):
        node.rank = rank
    order = [n.name for n in sequential_order(graph, lambda n: False).order]
    assert order.index("live") < order.index("r") < order.index("neg")


def averages(size: int = 3) -> GraphText:
    """Make a chain of computations, and in between what updates a variable of `size` elements."""
    g = GraphText()
    g.add("v", "VariableV2", shape=[size], dtype="float32")
    g.add("x", "Placeholder", dtype="float32")
    g.add("a", "Neg", "x", T="float32")
    g.add("update", "AssignSub", "v", "a", T="float32")
    g.add("b", "Neg", "a", T="float32")
    g.add("c", "Neg", "b", T="float32")
    return g


def ordered(g: GraphText, *blocking: str) -> list[str]:
    graph = NodeGraph.from_graph_def(g.proto)
    for rank, node in enumerate(graph):
        node.rank = rank
    return [n.name for n in sequential_order(graph, lambda n: n.name in blocking).order]


def test_what_waits_for_others_does_not_keep_an_update_from_them() -> None:
    """Others may look at the variable until they give what is waited for."""
    g = averages()
    g.add("d", "Neg", "c", T="float32")
    order = ordered(g, "d")
    assert order.index("c") < order.index("update") < order.index("d")


def test_what_updates_a_small_variable_waits_for_what_needs_nothing_of_it() -> None:
    assert ordered(averages())[-3:] == ["b", "c", "update"]


def test_what_updates_a_large_variable_keeps_its_place() -> None:
    assert ordered(averages(1 << 20))[-3:] == ["update", "b", "c"]


@pytest.mark.parametrize("who", ["read", "user of a read", "after", "output", "update"])
def test_who_has_to_do_with_a_small_variable_sees_it_updated(who: str) -> None:
    g = averages()
    if who == "read":
        g.add("r", "Identity", "v", T="float32")
        g.add("d", "Neg", "r", T="float32")
    elif who == "user of a read":
        g.add("r", "Identity", "v", T="float32")
        g.add("e", "Neg", "r", T="float32")
        g.add("d", "AddV2", "r", "c", T="float32")
    elif who == "after":
        g.add("d", "Neg", "c", "^update", T="float32")
    elif who == "output":
        g.add("d", "Identity", "update", T="float32")
    else:
        g.add("d", "AssignAdd", "v", "c", T="float32")
    g.add("z", "Neg", "c", T="float32")
    order = ordered(g)
    assert order.index("c") < order.index("update") < order.index("d")


def test_a_waiting_receive_ends_with_the_step() -> None:
    graph = NodeGraph.from_graph_def(transfers().proto)
    runner = Runner(graph_pb2.GraphDef())
    executor = Executor(graph, runner.device, runner.resources, runner.kernels)
    rendezvous, token = LocalRendezvous(), CancellationToken()
    rendezvous.send("client;fed:0", np.asarray(F(0)), False)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            executor.run(runner.step(rendezvous, token))
        except CancelledError as e:
            errors.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    rendezvous.recv(key("live"), token)
    token.cancel()
    thread.join(60.0)
    assert not thread.is_alive()
    assert len(errors) == 1 and errors[0].derived  # type: ignore[attr-defined]


def test_long_plans_notice_cancellation() -> None:
    g = GraphText()
    last = g.add("x", "Placeholder", dtype="float32")
    for i in range(300):
        last = g.add(f"n{i}", "Neg", last, T="float32")
    runner = Runner(g.proto)
    executor = runner.executor(["x:0"], [f"{last}:0"])
    rendezvous, token = LocalRendezvous(), CancellationToken()
    rendezvous.send("client;x:0", np.asarray(F(1)), False)
    token.cancel()
    with pytest.raises(CancelledError):
        executor.run(runner.step(rendezvous, token))


def test_steps_run_at_the_same_time() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("y", "Square", "x", T="float32")
    runner = Runner(g.proto)
    runner.run(["y:0"], {"x:0": F(1)})
    got: dict[int, float] = {}

    def run(i: int) -> None:
        for _ in range(50):
            got[i] = float(runner.run(["y:0"], {"x:0": F(i)})[0])

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == {0: 0.0, 1: 1.0, 2: 4.0, 3: 9.0}


def test_identities_pass_the_array_itself() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("a", "Identity", "x", T="float32")
    g.add("b", "StopGradient", "a", T="float32")
    value = np.arange(3, dtype=F)
    assert Runner(g.proto).run(["b:0", "a:0"], {"x:0": value})[0] is value


def test_trace_names_every_kernel_that_ran() -> None:
    runner = Runner(variable_graph().proto)
    runner.run([], targets=["init"])
    runner.trace = StepTrace()
    runner.run(["twice:0"])
    stats = runner.trace.to_proto()
    assert [d.device for d in stats.dev_stats] == [DEVICE]
    nodes = {n.node_name: n for n in stats.dev_stats[0].node_stats}
    assert {"v", "read", "twice"} <= set(nodes)
    twice = nodes["twice"]
    assert twice.timeline_label == "twice = AddV2(read, read)"
    assert twice.all_start_micros > 0
    assert [d.size for d in twice.output[0].tensor_description.shape.dim] == [3]
    assert twice.output[0].tensor_description.allocation_description.requested_bytes == 12


def test_a_single_waiting_kernel_needs_no_threads() -> None:
    """Dequeue after everything else: the plan stays straight."""
    g = GraphText()
    g.add("q", "FIFOQueueV2", component_types=["float32"], capacity=10)
    g.add("x", "Placeholder", dtype="float32")
    g.add("put", "QueueEnqueueV2", "q", "x", Tcomponents=["float32"])
    g.add("get", "QueueDequeueV2", "q", component_types=["float32"])
    g.add("neg", "Neg", "get", T="float32")
    runner = Runner(g.proto)
    runner.run([], {"x:0": F(3)}, ["put"])
    assert float(runner.run(["neg:0"])[0]) == -3
    assert runner.executor([], ["neg:0"]).plan.engine == "straight"


def test_environment_binds_a_kernel_once_a_node() -> None:
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    g.add("y", "Neg", "x", T="float32")
    graph = NodeGraph.from_graph_def(g.proto)
    device, resources, kernels = Device(DEVICE), ResourceManager(), KernelCache()
    functions = FunctionRunner(graph.library, device, resources, kernels, Executor)
    env = Environment(device, resources, kernels, graph.library, functions)
    assert env.bind(graph.nodes["y"]) is env.bind(graph.nodes["y"])
