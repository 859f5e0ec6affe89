"""Kernels that wait: threads, cancellation, what is left when a step ends."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import CancelledError, InvalidArgumentError, OpError
from tests.unit.executor.harness import GraphText, LocalRendezvous, Runner

F = np.float32
QUEUE = {"component_types": ["float32"], "capacity": 2}
ITEM = {"Tcomponents": ["float32"]}
GOT = {"component_types": ["float32"]}


def run_in_thread(runner: Runner, fetches: list[str], token: CancellationToken) -> tuple[threading.Thread, list[Any]]:
    executor = runner.executor([], fetches)
    outcome: list[Any] = []
    rendezvous = LocalRendezvous()

    def run() -> None:
        try:
            executor.run(runner.step(rendezvous, token))
            outcome.extend(rendezvous.recv(f"client;{f}", token)[0] for f in fetches)
        except OpError as e:
            outcome.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_an_enqueue_feeds_a_dequeue_of_the_same_step() -> None:
    g = GraphText()
    g.add("q", "FIFOQueueV2", **QUEUE)
    g.add("get", "QueueDequeueV2", "q", **GOT)
    g.const("x", F(4))
    g.add("late", "Exp", "x", T="float32")
    g.add("put", "QueueEnqueueV2", "q", "late", **ITEM)
    runner = Runner(g.proto)
    assert float(runner.run(["get:0"], targets=["put"])[0]) == pytest.approx(np.exp(4), rel=1e-6)
    assert runner.executor([], ["get:0"], ["put"]).plan.engine == "frames"


def test_more_items_than_the_queue_holds_pass_through_in_one_step() -> None:
    g = GraphText()
    g.add("q", "FIFOQueueV2", **QUEUE)
    g.const("x", F(1))
    for i in range(8):
        g.add(f"put{i}", "QueueEnqueueV2", "q", "x", **ITEM)
        g.add(f"get{i}", "QueueDequeueV2", "q", **GOT)
    g.add("sum", "AddN", *[f"get{i}" for i in range(8)], T="float32", N=8)
    runner = Runner(g.proto)
    assert float(runner.run(["sum:0"], targets=[f"put{i}" for i in range(8)])[0]) == 8


def test_cancelling_ends_waiting_kernels() -> None:
    g = GraphText()
    g.add("q", "FIFOQueueV2", **QUEUE)
    for i in range(3):
        g.add(f"get{i}", "QueueDequeueV2", "q", **GOT)
    runner = Runner(g.proto)
    token = CancellationToken()
    thread, outcome = run_in_thread(runner, ["get0:0", "get1:0", "get2:0"], token)
    token.cancel()
    thread.join(60.0)
    assert not thread.is_alive()
    assert len(outcome) == 1 and isinstance(outcome[0], CancelledError)


def test_an_error_ends_waiting_kernels_without_cancelling_others() -> None:
    """The failed step's waits end; a step waiting on the same queue goes on."""
    g = GraphText()
    g.add("q", "FIFOQueueV2", **QUEUE)
    g.add("get", "QueueDequeueV2", "q", **GOT)
    g.add("get2", "QueueDequeueV2", "q", **GOT)
    g.const("zero", np.int32(0))
    g.const("one", np.int32(1))
    g.add("bad", "FloorDiv", "one", "zero", T="int32")
    g.add("x", "Placeholder", dtype="float32")
    g.add("put", "QueueEnqueueV2", "q", "x", **ITEM)
    runner = Runner(g.proto)
    token = CancellationToken()
    thread, outcome = run_in_thread(runner, ["get:0"], token)
    failing = CancellationToken()
    executor = runner.executor([], ["get:0", "get2:0", "bad:0"])
    with pytest.raises(InvalidArgumentError) as raised:
        executor.run(runner.step(LocalRendezvous(), failing))
    assert raised.value.node == "bad"
    assert failing.reason is None
    runner.run([], {"x:0": F(6)}, ["put"])
    thread.join(60.0)
    assert not thread.is_alive()
    assert float(outcome[0]) == 6


def test_waits_in_loops_run_beside_each_other() -> None:
    """Each iteration takes an item that another iteration, or the code after it, puts."""
    g = GraphText()
    g.add("q", "FIFOQueueV2", **{**QUEUE, "capacity": 100})
    g.const("zero", np.int32(0))
    g.add("n", "Placeholder", dtype="int32")
    attrs = {"frame_name": "f", "parallel_iterations": 5}
    g.add("enter", "Enter", "zero", T="int32", is_constant=False, **attrs)
    g.add("limit", "Enter", "n", T="int32", is_constant=True, **attrs)
    g.add("queue", "Enter", "q", T="resource", is_constant=True, **attrs)
    g.add("merge", "Merge", "enter", "next", T="int32", N=2)
    g.add("less", "Less", "merge", "limit", T="int32")
    g.add("cond", "LoopCond", "less")
    g.add("switch", "Switch", "merge", "cond", T="int32")
    g.add("body", "Identity", "switch:1", T="int32")
    g.add("value", "Cast", "body", SrcT="int32", DstT="float32")
    g.add("put", "QueueEnqueueV2", "queue", "value", **ITEM)
    g.add("get", "QueueDequeueV2", "queue", "^body", **GOT)
    g.const("one", np.int32(1), after=["body"])
    g.add("add", "AddV2", "body", "one", "^put", "^get", T="int32")
    g.add("next", "NextIteration", "add", T="int32")
    g.add("exit", "Exit", "switch", T="int32")
    runner = Runner(g.proto)
    before = threading.active_count()
    assert int(runner.run(["exit:0"], {"n:0": np.int32(40)})[0]) == 40
    assert threading.active_count() - before <= 8


def test_threads_are_used_again() -> None:
    g = GraphText()
    g.add("q", "FIFOQueueV2", **QUEUE)
    g.const("x", F(1))
    g.add("put", "QueueEnqueueV2", "q", "x", **ITEM)
    g.add("get", "QueueDequeueV2", "q", **GOT)
    runner = Runner(g.proto)
    runner.run(["get:0"], targets=["put"])
    before = threading.active_count()
    for _ in range(50):
        runner.run(["get:0"], targets=["put"])
    assert threading.active_count() <= before + 2
