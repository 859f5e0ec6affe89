"""What the next step needs first goes first, in both directions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework.transfer_names import URGENCIES, lane_of
from dtfctl.runtime.testing.devices import create_local_cluster

LAYERS = URGENCIES


@pytest.fixture
def worker() -> Iterator[Any]:
    workers, parameter_servers = create_local_cluster(1, 1)
    yield workers[0]
    for server in [*workers, *parameter_servers]:
        server.stop()


def lanes_of_a_step(target: str, use_resource: bool, is_ahead: bool) -> tuple[dict[str, int], dict[str, int]]:
    """The lanes of what the ps sends the worker, and the other way round, by who has made it."""
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, tf.device(setter):
        y = tf.constant(np.ones((1, 2), np.float32))
        # Not in the order in which they are made.
        weights = {n: tf.get_variable(f"w{n}", [2, 2], use_resource=use_resource) for n in reversed(range(LAYERS))}
        for n in range(LAYERS):
            y = tf.tanh(tf.matmul(y, weights[n]), name=f"y{n}")
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(tf.reduce_sum(y))
        if is_ahead:
            hook = tf.train.experimental.PrefetchParametersHook()
            hook.begin()
        init = [tf.global_variables_initializer(), tf.local_variables_initializer()]
    with tf.Session(target, graph=graph) as session:
        for op in init:
            session.run(op)
        if is_ahead:
            hook.after_create_session(session, None)
        told = tf.RunMetadata()
        session.run(train, options=tf.RunOptions(output_partition_graphs=True), run_metadata=told)
    down: dict[str, int] = {}
    up: dict[str, int] = {}
    for part in told.partition_graphs:
        for node in part.node:
            if node.op == "_Send" and not node.attr["client_terminated"].b and "ctrl" not in node.input[0]:
                there = up if b"/job:worker" in node.attr["send_device"].s else down
                there[node.input[0]] = lane_of(f"a;1;b;{node.attr['tensor_name'].s.decode()};0:0")
    return down, up


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("is_ahead", [True, False])
def test_parameters_and_gradients_of_the_first_layer_overtake_all_others(
    worker: Any, use_resource: bool, is_ahead: bool
) -> None:
    down, up = lanes_of_a_step(worker.target, use_resource, is_ahead)
    first = URGENCIES if is_ahead else 0
    assert by_layer(down, "ReadVariableOp" if use_resource else "read") == [first + n for n in range(LAYERS)]
    # Learning rate and momentum are needed before any of them; and the gradient of the last layer exists first.
    assert by_layer(up, "MatMul") == [1, 2, 2, 3]


def by_layer(lanes: dict[str, int], what: str) -> list[int]:
    """The lanes of tensors with names like `w1/read`, `ReadVariableOp_1`, `gradients/MatMul_1_grad/...`."""
    found = {}
    for name, lane in lanes.items():
        if what in name:
            layer = re.search(r"(?:w|Op_|MatMul_)(\d)", name)
            found[int(layer[1]) if layer else 0] = lane
    return [found[n] for n in range(LAYERS)]


def test_rows_that_are_looked_up_are_needed_before_layers_behind_them(worker: Any) -> None:
    """The ids that the ps needs for them go before gradients, and the rows before the layers that they go through."""
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, tf.device(setter):
        table = tf.get_variable("table", [8, 2])
        behind = [tf.get_variable(f"w{n}", [2, 2]) for n in range(3)]
        ids = tf.placeholder(tf.int32, [3])
        y = tf.nn.embedding_lookup(table, tf.add(ids, 1))
        for w in behind:
            y = tf.matmul(y, w)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y))
        init = tf.global_variables_initializer()
    with tf.Session(worker.target, graph=graph) as session:
        session.run(init)
        told = tf.RunMetadata()
        options = tf.RunOptions(output_partition_graphs=True)
        session.run(train, {ids: [1, 2, 3]}, options=options, run_metadata=told)
    sends = {
        node.input[0]: lane_of(f";{node.attr['tensor_name'].s.decode()}")
        for part in told.partition_graphs
        for node in part.node
        if node.op == "_Send" and not node.attr["client_terminated"].b
    }
    assert [sends[name] for name in ("embedding_lookup", "w0/read", "w1/read", "w2/read")] == [0, 1, 2, 3]
    assert sends["Add"] == 0
