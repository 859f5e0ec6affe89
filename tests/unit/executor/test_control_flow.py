"""Conditionals and loops: dead tensors, frames, references, partitions of TensorFlow's own partitioner."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.executor import Executor, KernelCache, StepTrace
from dtfctl.runtime.executor.straight_line import StraightLine
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.errors import CancelledError, InvalidArgumentError, OpError
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.framework.resource_manager import ResourceManager
from tests.support.golden import DATA
from tests.unit.executor.harness import DEVICE, GraphText, LocalRendezvous, Runner
from tests.unit.executor.programs import build, evaluate, random_block

F = np.float32


@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed: int) -> None:
    """Loops as plans of their own, and by the frame machine."""
    rng = random.Random(seed)
    block = random_block(rng, depth=3)
    g, results = build(block)
    folded, machine = Runner(g.proto), Runner(g.proto)
    names = [f"x{i}:0" for i in range(3)]
    executor = machine.executor(names, results)
    executor.plan = executor.planner.machine()
    assert folded.executor(names, results).plan.engine == "straight"
    for _ in range(4):
        values = [rng.randrange(97) for _ in range(3)]
        for runner in (folded, machine):
            got = runner.run(results, {name: np.int32(v) for name, v in zip(names, values)})
            assert [int(v) for v in got] == evaluate(block, values)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_conditionals(seed: int) -> None:
    rng = random.Random(seed)
    block = random_block(rng, depth=3, loops=False)
    g, results = build(block)
    for _ in range(4):
        values = [rng.randrange(97) for _ in range(3)]
        feeds = {f"x{i}:0": np.int32(v) for i, v in enumerate(values)}
        assert every_way(g, results, feeds) == evaluate(block, values)


def conditional() -> GraphText:
    """out = p ? -x : x * x"""
    g = GraphText()
    g.add("p", "Placeholder", dtype="bool")
    g.add("x", "Placeholder", dtype="float32")
    g.add("switch", "Switch", "x", "p", T="float32")
    g.add("neg", "Neg", "switch:1", T="float32")
    g.add("square", "Square", "switch", T="float32")
    g.add("out", "Merge", "neg", "square", T="float32", N=2)
    return g


def test_a_merge_tells_which_input_came() -> None:
    runner = Runner(conditional().proto)
    for p, want in ((True, (-3.0, 0)), (False, (9.0, 1))):
        value, index = runner.run(["out:0", "out:1"], {"p:0": np.bool_(p), "x:0": F(3)})
        assert (float(value), int(index)) == want
        assert index.dtype == np.int32
    assert runner.executor(["p:0", "x:0"], ["out:0", "out:1"]).plan.engine == "straight"


def every_way(g: GraphText, fetches: list[str], feeds: dict[str, Any]) -> list[Any]:
    """Run by straight lines, the interpreter and the frame machine, which must agree; dead fetches are None."""
    out: list[Any] = []
    for way in range(4):
        runner = Runner(g.proto)
        executor = runner.executor(list(feeds), fetches)
        assert executor.plan.engine == "straight"
        if way == 1:
            executor.plan = executor.planner.straight(chunk_size=3)
        elif way == 2:
            executor.plan = executor.planner.interpreter
        elif way == 3:
            executor.plan = executor.planner.machine()
        rendezvous, token = LocalRendezvous(), CancellationToken()
        for name, value in feeds.items():
            rendezvous.send(f"client;{name}", np.asarray(value), False)
        executor.run(runner.step(rendezvous, token))
        got = [rendezvous.recv(f"client;{name}", token) for name in fetches]
        out.append([None if dead else value.tolist() for value, dead in got])
    assert out[0] == out[1] == out[2] == out[3]
    return list(out[0])


def test_deadness_follows_data_and_control_edges() -> None:
    g = conditional()
    g.const("one", F(1), after=["neg"])
    g.add("untouched", "Neg", "x", T="float32")
    g.add("trigger", "ControlTrigger", "^neg")
    g.const("triggered", F(2), after=["trigger"])
    g.add("dead_merge", "Merge", "neg", "neg", T="float32", N=2)
    fetches = ["neg:0", "one:0", "untouched:0", "triggered:0", "dead_merge:0"]
    assert every_way(g, fetches, {"p:0": True, "x:0": F(3)}) == [-3.0, 1.0, -3.0, 2.0, -3.0]
    assert every_way(g, fetches, {"p:0": False, "x:0": F(3)}) == [None, None, -3.0, 2.0, None]


def test_switch_n_takes_the_last_branch_for_an_index_out_of_range() -> None:
    g = GraphText()
    g.add("i", "Placeholder", dtype="int32")
    g.const("x", F(7))
    g.add("s", "_SwitchN", "x", "i", T="float32", num_outs=3)
    fetches = ["s:0", "s:1", "s:2"]
    for index, live in ((0, 0), (2, 2), (5, 2), (-1, 2)):
        want = [7.0 if slot == live else None for slot in range(3)]
        assert every_way(g, fetches, {"i:0": np.int32(index)}) == want


def test_a_merge_waits_for_its_control_inputs() -> None:
    g = conditional()
    g.add("v", "VariableV2", shape=[], dtype="float32")
    g.add("assign", "Assign", "v", "x", T="float32")
    g.add("gated", "Merge", "neg", "square", "^assign", T="float32", N=2)
    g.add("after", "Identity", "gated", T="float32")
    g.add("read", "Identity", "v", "^after", T="float32")
    assert every_way(g, ["read:0", "after:0"], {"p:0": True, "x:0": F(3)}) == [3.0, -3.0]


def test_a_merge_of_unrelated_branches_is_live_when_any_is() -> None:
    g = GraphText()
    for name in ("p", "q"):
        g.add(name, "Placeholder", dtype="bool")
        g.const(f"x{name}", F(ord(name)))
        g.add(f"switch_{name}", "Switch", f"x{name}", name, T="float32")
        g.add(f"neg_{name}", "Neg", f"switch_{name}:1", T="float32")
    g.add("any", "Merge", "neg_p", "neg_q", T="float32", N=2)
    g.add("after", "Neg", "any", T="float32")
    for p, q, want in ((1, 0, 112.0), (0, 1, 113.0), (0, 0, None)):
        assert every_way(g, ["after:0"], {"p:0": np.bool_(p), "q:0": np.bool_(q)}) == [want]


def test_variables_in_branches_are_updated_in_place() -> None:
    """The value read in the branch taken is dropped before the update there."""
    g = GraphText()
    g.add("p", "Placeholder", dtype="bool")
    g.add("v", "VariableV2", shape=[3], dtype="float32")
    g.const("start", np.zeros(3, F))
    g.add("init", "Assign", "v", "start", T="float32")
    g.add("pivot", "Switch", "p", "p", T="bool")
    g.add("taken", "Identity", "pivot:1", T="bool")
    g.add("read", "Identity", "v", "^taken", T="float32")
    g.const("one", np.ones(3, F), after=["taken"])
    g.add("next", "AddV2", "read", "one", T="float32")
    g.add("update", "AssignAdd", "v", "one", "^next", T="float32")
    runner = Runner(g.proto)
    runner.run([], targets=["init"])
    runner.run([], {"p:0": np.bool_(True)}, ["update"])
    address = runner.run(["v:0"])[0].ctypes.data
    runner.run([], {"p:0": np.bool_(False)}, ["update"])
    runner.run([], {"p:0": np.bool_(True)}, ["update"])
    assert runner.run(["v:0"])[0].ctypes.data == address
    assert runner.run(["v:0"])[0].tolist() == [2, 2, 2]


def test_references_pass_through_switches_and_merges() -> None:
    """if p: v += 10 else: v -= 1; the merged reference is the variable itself."""
    g = GraphText()
    g.add("p", "Placeholder", dtype="bool")
    g.add("v", "VariableV2", shape=[], dtype="float32")
    g.const("start", F(5))
    g.add("init", "Assign", "v", "start", T="float32")
    g.add("switch", "RefSwitch", "v", "p", T="float32")
    g.const("ten", F(10))
    g.const("one", F(1))
    g.add("up", "AssignAdd", "switch:1", "ten", T="float32")
    g.add("down", "AssignSub", "switch", "one", T="float32")
    g.add("merged", "RefMerge", "up", "down", T="float32", N=2)
    g.add("double", "AssignAdd", "merged", "merged", T="float32")
    g.add("out", "Identity", "double", T="float32")
    runner = Runner(g.proto)
    runner.run([], targets=["init"])
    assert float(runner.run(["out:0"], {"p:0": np.bool_(True)})[0]) == 30
    assert float(runner.run(["out:0"], {"p:0": np.bool_(False)})[0]) == 58


def counting_loop(g: GraphText, frame: str, start: str, limit: str, parallel: int = 10) -> dict[str, str]:
    """i = start; while i < limit: i += 1."""
    attrs = {"T": "int32", "frame_name": frame, "parallel_iterations": parallel}
    g.add(f"{frame}/enter", "Enter", start, is_constant=False, **attrs)
    g.add(f"{frame}/limit", "Enter", limit, is_constant=True, **attrs)
    g.add(f"{frame}/merge", "Merge", f"{frame}/enter", f"{frame}/next", T="int32", N=2)
    g.add(f"{frame}/less", "Less", f"{frame}/merge", f"{frame}/limit", T="int32")
    g.add(f"{frame}/cond", "LoopCond", f"{frame}/less")
    g.add(f"{frame}/switch", "Switch", f"{frame}/merge", f"{frame}/cond", T="int32")
    g.add(f"{frame}/body", "Identity", f"{frame}/switch:1", T="int32")
    g.const(f"{frame}/one", np.int32(1), after=[f"{frame}/body"])
    g.add(f"{frame}/add", "AddV2", f"{frame}/body", f"{frame}/one", T="int32")
    g.add(f"{frame}/next", "NextIteration", f"{frame}/add", T="int32")
    g.add(f"{frame}/exit", "Exit", f"{frame}/switch", T="int32")
    return {"body": f"{frame}/body", "exit": f"{frame}/exit"}


@pytest.mark.parametrize("machine", [False, True])
@pytest.mark.parametrize("parallel", [1, 2, 10, 1000])
@pytest.mark.parametrize("trips", [0, 1, 5, 300])
def test_loops_of_any_length(parallel: int, trips: int, machine: bool) -> None:
    g = GraphText()
    g.const("zero", np.int32(0))
    g.add("n", "Placeholder", dtype="int32")
    counting_loop(g, "loop", "zero", "n", parallel)
    runner = Runner(g.proto)
    if machine:
        executor = runner.executor(["n:0"], ["loop/exit:0"])
        executor.plan = executor.planner.machine()
    assert int(runner.run(["loop/exit:0"], {"n:0": np.int32(trips)})[0]) == trips


def test_a_loop_half_of_whose_inputs_are_dead_runs_for_the_others() -> None:
    """The counter goes round; the variable that comes from the branch not taken dies."""
    g = GraphText()
    g.add("p", "Placeholder", dtype="bool")
    g.const("zero", np.int32(0))
    g.const("n", np.int32(3))
    g.add("s", "Switch", "n", "p", T="int32")
    counting_loop(g, "loop", "zero", "n")
    attrs = {"T": "int32", "frame_name": "loop", "parallel_iterations": 10}
    g.add("enter", "Enter", "s:1", is_constant=False, **attrs)
    g.add("merge", "Merge", "enter", "next", T="int32", N=2)
    g.add("switch", "Switch", "merge", "loop/cond", T="int32")
    g.add("twice", "AddV2", "switch:1", "switch:1", T="int32")
    g.add("next", "NextIteration", "twice", T="int32")
    g.add("exit", "Exit", "switch", T="int32")
    g.add("out", "Merge", "exit", "s", T="int32", N=2)
    runner = Runner(g.proto)
    for p, want in ((True, [3, 24, 0]), (False, [3, 3, 1])):
        got = runner.run(["loop/exit:0", "out:0", "out:1"], {"p:0": np.bool_(p)})
        assert [int(v) for v in got] == want


@pytest.mark.parametrize("way", ["straight", "interpreter", "machine"])
@pytest.mark.parametrize("dead", [False, True])
def test_a_dead_tensor_received_beside_a_loop(dead: bool, way: str) -> None:
    transfer = {"tensor_name": "r", "send_device": "/a", "send_device_incarnation": 1, "recv_device": "/b"}
    g = GraphText()
    g.add("r", "_Recv", tensor_type="int32", **transfer)
    g.const("zero", np.int32(0))
    g.const("n", np.int32(3))
    counting_loop(g, "loop", "zero", "n")
    counting_loop(g, "other", "zero", "r")
    runner = Runner(g.proto)
    fetches = ["loop/exit:0", "other/exit:0"]
    executor = runner.executor([], fetches)
    assert executor.plan.engine == "straight"
    if way == "interpreter":
        executor.plan = executor.planner.interpreter
    elif way == "machine":
        executor.plan = executor.planner.machine()
    rendezvous, token = LocalRendezvous(), CancellationToken()
    rendezvous.send(f"/a;{1:016x};/b;r;0:0", None if dead else np.array(5, np.int32), dead)
    executor.run(runner.step(rendezvous, token))
    got = [rendezvous.recv(f"client;{f}", token) for f in fetches]
    assert int(got[0][0]) == 3
    assert got[1] == (None, True) if dead else int(got[1][0]) == 5


def test_loops_become_plans_of_their_own() -> None:
    g = GraphText()
    g.const("zero", np.int32(0))
    g.add("n", "Placeholder", dtype="int32")
    counting_loop(g, "loop", "zero", "n")
    runner = Runner(g.proto)
    executor = runner.executor(["n:0"], ["loop/exit:0"])
    assert executor.plan.engine == "straight"
    plan = executor.plan.general
    assert isinstance(plan, StraightLine)
    assert [n.op for n in plan.order].count("_Loop") == 1
    runner.trace = StepTrace()
    assert int(runner.run(["loop/exit:0"], {"n:0": np.int32(4)})[0]) == 4
    stats = runner.trace.to_proto().dev_stats[0].node_stats
    assert [s.node_name for s in stats].count("loop/add") == 4


def test_a_loop_in_a_branch_not_taken_is_dead() -> None:
    g = GraphText()
    g.add("p", "Placeholder", dtype="bool")
    g.const("zero", np.int32(0))
    g.const("n", np.int32(3))
    g.add("s", "Switch", "zero", "p", T="int32")
    g.add("sn", "Switch", "n", "p", T="int32")
    counting_loop(g, "loop", "s:1", "sn:1")
    g.add("out", "Merge", "loop/exit", "s", T="int32", N=2)
    runner = Runner(g.proto)
    for p, want in ((True, [3, 0]), (False, [0, 1])):
        assert [int(v) for v in runner.run(["out:0", "out:1"], {"p:0": np.bool_(p)})] == want


def test_errors_inside_a_loop_end_the_step() -> None:
    g = GraphText()
    g.const("zero", np.int32(0))
    g.add("n", "Placeholder", dtype="int32")
    counting_loop(g, "loop", "zero", "n")
    g.const("loop/five", np.int32(5), after=["loop/body"])
    g.add("loop/rest", "Sub", "loop/five", "loop/body", T="int32")
    g.add("loop/div", "FloorDiv", "loop/five", "loop/rest", T="int32")
    g.proto.node[[n.name for n in g.proto.node].index("loop/next")].input[:] = ["loop/add", "^loop/div"]
    runner = Runner(g.proto)
    assert int(runner.run(["loop/exit:0"], {"n:0": np.int32(5)})[0]) == 5
    with pytest.raises(InvalidArgumentError) as raised:
        runner.run(["loop/exit:0"], {"n:0": np.int32(9)})
    assert raised.value.node == "loop/div"


def test_endless_loops_can_be_cancelled() -> None:
    g = GraphText()
    g.const("zero", np.int32(0))
    g.const("n", np.int32(2**31 - 1))
    counting_loop(g, "loop", "zero", "n")
    runner = Runner(g.proto)
    executor = runner.executor([], ["loop/exit:0"])
    token = CancellationToken()
    timer = threading.Timer(0.05, token.cancel)
    timer.start()
    with pytest.raises(CancelledError):
        executor.run(runner.step(LocalRendezvous(), token))
    timer.join()


def test_malformed_loops_are_refused() -> None:
    g = GraphText()
    g.const("zero", np.int32(0))
    g.const("n", np.int32(1))
    counting_loop(g, "loop", "zero", "n")
    g.add("mixed", "AddV2", "loop/body", "n", T="int32")
    g.add("gone", "Exit", "mixed", T="int32")
    with pytest.raises(InvalidArgumentError, match="different frames"):
        Runner(g.proto).run(["gone:0"])
    g = GraphText()
    g.const("zero", np.int32(0))
    g.add("out", "Exit", "zero", T="int32")
    with pytest.raises(InvalidArgumentError, match="not entered"):
        Runner(g.proto).run(["out:0"])


def partitions(name: str) -> list[NodeGraph]:
    graphs = []
    for part in ("part0", "part1"):
        text = (DATA / "partitions" / f"{name}.{part}.pbtxt").read_text()
        graphs.append(NodeGraph.from_graph_def(text_format.Parse(text, graph_pb2.GraphDef())))
    return graphs


def run_partitions(name: str, feeds: dict[str, Any], fetch: str) -> float:
    """Both tasks' parts at once, on one rendezvous."""
    rendezvous, token = LocalRendezvous(), CancellationToken()
    for key, value in feeds.items():
        rendezvous.send(f"client;{key}", np.asarray(value), False)
    runner = Runner(graph_pb2.GraphDef())
    executors = [Executor(g, Device(DEVICE), ResourceManager(), KernelCache()) for g in partitions(name)]
    errors: list[OpError] = []

    def run(executor: Executor) -> None:
        try:
            executor.run(runner.step(rendezvous, token))
        except OpError as e:
            errors.append(e)
            token.cancel(e)

    threads = [threading.Thread(target=run, args=(e,)) for e in executors]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60.0)
    assert not errors and not any(t.is_alive() for t in threads)
    return float(rendezvous.recv(f"client;{fetch}", token)[0])


def test_a_loop_over_two_tasks() -> None:
    """Partitioned by TensorFlow: both sides must come to the same frame and iteration keys."""
    client = text_format.Parse((DATA / "partitions" / "loop.client.pbtxt").read_text(), graph_pb2.GraphDef())
    for node in client.node:
        node.device = ""
    want = float(Runner(client).run(["while/Exit_1:0"])[0])
    assert want > 0
    assert run_partitions("loop", {}, "while/Exit_1:0") == want


@pytest.mark.parametrize("taken", [True, False])
def test_a_conditional_over_two_tasks(taken: bool) -> None:
    client = text_format.Parse((DATA / "partitions" / "cond.client.pbtxt").read_text(), graph_pb2.GraphDef())
    for node in client.node:
        node.device = ""
    want = float(Runner(client).run(["cond/Merge:0"], {"p:0": np.bool_(taken)})[0])
    assert run_partitions("cond", {"p:0": np.bool_(taken)}, "cond/Merge:0") == want
