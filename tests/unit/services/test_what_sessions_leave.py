"""What is left of a closed session: nothing that only the cycle collector would find."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.framework.node_graph import Node


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
@pytest.mark.parametrize("steps", [1, 3, 12])
def test_a_closed_session_leaves_no_nodes(steps: int) -> None:
    with tf.Graph().as_default() as graph:
        variable = tf.get_variable("v", [4, 4])
        fed = tf.placeholder(tf.float32, [None, 4])
        product = tf.matmul(fed, variable)
        init = tf.global_variables_initializer()
    before = alive()

    def run() -> None:
        with tf.Session(graph=graph) as session:
            session.run(init)
            for i in range(steps):
                session.run(product, {fed: [[float(i)] * 4]})
            assert alive() - before

    run()
    assert not alive() - before
