"""Running independent nodes at the same time, where measured to pay."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.executor import Executor
from dtfctl.runtime.executor.tuner import Tuner, worth_running_beside
from dtfctl.runtime.framework.cancellation import CancellationToken
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.kernels.control.py_func import register_py_func
from tests.unit.executor.harness import GraphText, LocalRendezvous, Runner, client_graph

F = np.float32
FETCHES = ["sum:0"]


def fan(work: Callable[[Any], Any], count: int = 3, chained: bool = False) -> Runner:
    """`count` calls of a Python function on x, beside or after each other, added up."""
    token = register_py_func(work)
    g = GraphText()
    g.add("x", "Placeholder", dtype="float32")
    last = "x"
    for i in range(count):
        source = last if chained else "x"
        last = g.add(f"f{i}", "PyFuncStateless", source, token=token, Tin=["float32"], Tout=["float32"])
    g.add("sum", "AddN", *[f"f{i}" for i in range(count)], T="float32", N=count)
    return Runner(g.proto)


def executor_of(runner: Runner, parallelism: int) -> Executor:
    graph = client_graph(NodeGraph.from_graph_def(runner.graph_def), ["x:0"], FETCHES, ())
    return Executor(graph, runner.device, runner.resources, runner.kernels, parallelism=parallelism)


def run(runner: Runner, executor: Executor, x: float) -> float:
    rendezvous, token = LocalRendezvous(), CancellationToken()
    rendezvous.send("client;x:0", np.asarray(F(x)), False)
    executor.run(runner.step(rendezvous, token))
    return float(rendezvous.recv("client;sum:0", token)[0])


def slow(x: Any) -> Any:
    time.sleep(0.004)
    return x + F(1)


def test_independent_heavy_nodes_end_up_in_threads() -> None:
    runner = fan(slow)
    executor = executor_of(runner, 4)
    assert executor.plan.engine == "straight"
    for step in range(20):
        assert run(runner, executor, step) == 3 * (step + 1)
    assert executor.plan.engine == "frames"
    assert not isinstance(executor.plan, Tuner)


@pytest.mark.parametrize(("parallelism", "chained"), [(1, False), (4, True)])
def test_nothing_changes_where_there_is_nothing_to_gain(parallelism: int, chained: bool) -> None:
    runner = fan(slow, chained=chained)
    executor = executor_of(runner, parallelism)
    for _ in range(16):
        run(runner, executor, 0)
    assert executor.plan.engine == "straight"


def test_threads_that_are_much_slower_are_left_after_two_trials() -> None:
    """They are promised a gain by the nodes' times alone; what those take beside each other is seen in a trial."""
    running, lock, crowded = 0, threading.Lock(), set()

    def slower_in_company(x: Any) -> Any:
        nonlocal running
        with lock:
            running += 1
            is_beside = running > 1
        if is_beside:
            crowded.add(step)
        time.sleep(0.05 if is_beside else 0.004)
        with lock:
            running -= 1
        return x + F(1)

    runner = fan(slower_in_company)
    executor = executor_of(runner, 4)
    for step in range(20):
        assert run(runner, executor, step) == 3 * (step + 1)
    assert executor.plan.engine == "straight" and not isinstance(executor.plan, Tuner)
    assert 0 < len(crowded) <= 2


def test_light_steps_are_left_alone() -> None:
    runner = fan(lambda x: x)
    executor = executor_of(runner, 4)
    for _ in range(6):
        assert run(runner, executor, 2) == 6
    assert executor.plan.engine == "straight"
    assert not isinstance(executor.plan, Tuner)


def test_no_more_kernels_run_at_once_than_allowed() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def count(x: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.003)
        with lock:
            running -= 1
        return x

    runner = fan(count, 8)
    executor = executor_of(runner, 3)
    for _ in range(18):
        assert run(runner, executor, 1) == 8
    assert executor.plan.engine == "frames"
    assert 1 < most <= 3


def test_errors_in_threads_end_the_step() -> None:
    def fail(x: Any) -> Any:
        time.sleep(0.003)
        if x > 5:
            raise ValueError("too much")
        return x

    runner = fan(fail)
    executor = executor_of(runner, 4)
    for _ in range(18):
        run(runner, executor, 1)
    assert executor.plan.engine == "frames"
    with pytest.raises(InvalidArgumentError, match="too much"):
        run(runner, executor, 6)
    assert run(runner, executor, 1) == 3


def test_the_critical_path_decides() -> None:
    runner = fan(lambda x: x, 2)
    graph = client_graph(NodeGraph.from_graph_def(runner.graph_def), ["x:0"], FETCHES, ())
    spent = {node: 2_000_000 if node.name in ("f0", "f1") else 1_000 for node in graph}
    assert {n.name for n in worth_running_beside(spent)} == {"f0", "f1"}
    one = {node: 2_000_000 if node.name == "f0" else 1_000 for node in graph}
    assert worth_running_beside(one) == frozenset()
    uneven = {node: {"f0": 3_000_000, "f1": 200_000}.get(node.name, 1_000) for node in graph}
    assert worth_running_beside(uneven) == frozenset()


@pytest.mark.parametrize("op", ["ScatterSub", "ResourceScatterAdd", "ScatterNd"])
def test_plans_that_change_rows_of_variables_run_in_order(op: str) -> None:
    """Rows that are taken after some were changed elsewhere are of a copy of the whole table."""
    g = GraphText()
    g.const("ids", np.zeros(2, np.int32))
    g.const("rows", np.ones((2, 3), F))
    types = {"Tindices": "int32"}
    if op == "ScatterSub":
        g.add("table", "VariableV2", dtype="float32", shape=(4, 3))
        g.add("change", op, "table", "ids", "rows", T="float32", **types)
    elif op == "ResourceScatterAdd":
        g.add("table", "VarHandleOp", dtype="float32", shape=(4, 3))
        g.add("change", op, "table", "ids", "rows", dtype="float32", **types)
    else:
        g.const("at", np.zeros((2, 1), np.int32))
        g.const("shape", np.array([4, 3], np.int32))
        g.add("change", op, "at", "rows", "shape", T="float32", **types)
    spent = dict.fromkeys(NodeGraph.from_graph_def(g.proto), 2000000)
    assert bool(worth_running_beside(spent)) == (op == "ScatterNd")
