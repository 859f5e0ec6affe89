"""What is left of a closed session: nothing that only the cycle collector would find."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.executor import varied
from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.framework.node_graph import Node
from tests.support.clusters import in_process_cluster
from tests.support.waiting import eventually
from tests.unit.executor.harness import executors_of


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> set[int]:
    """Nodes and executors there are."""
    return {id(o) for o in gc.get_objects() if type(o) in (Node, Executor)}


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "shapes"), [(1, 1), (3, 1), (12, 1), (60, 3)])
def test_a_closed_session_leaves_no_nodes(steps: int, shapes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(varied, "_WORTH", 0.0)
    with tf.Graph().as_default() as graph:
        variable = tf.get_variable("v", [4, 4])
        fed = tf.placeholder(tf.float32, [None, 4])
        product = tf.reduce_mean(tf.square(tf.tanh(tf.matmul(fed, variable))))
        init = tf.global_variables_initializer()
    before = alive()

    def run() -> None:
        with tf.Session(graph=graph) as session:
            session.run(init)
            for i in range(steps):
                session.run(product, {fed: [[float(i)] * 4] * (100 * (1 + i % shapes))})
            assert alive() - before
            if shapes > 1:
                assert any(isinstance(e.plan, varied.Varied) for e in executors_of(session))

    run()
    assert not alive() - before


def test_a_session_that_the_collector_finds_under_a_tasks_lock_is_closed() -> None:
    """The collector runs wherever something is made: in a task's own call, too, which holds what closing needs."""
    with in_process_cluster({"worker": 1}) as cluster:
        worker = cluster.servers["worker", 0].worker
        with tf.Graph().as_default():
            product = tf.matmul([[2.0]], [[3.0]])
            left: list[Any] = [tf.Session(cluster.target("worker", 0))]
            assert left[0].run(product) == [[6.0]]
        left.append(left)
        before = worker.open_sessions
        del left

        def collect() -> None:
            with worker._lock:
                gc.collect()

        collecting = threading.Thread(target=collect, daemon=True)
        collecting.start()
        collecting.join(30)
        assert not collecting.is_alive(), "it waits for a lock that it holds"
        eventually(lambda: worker.open_sessions == before - 1)
