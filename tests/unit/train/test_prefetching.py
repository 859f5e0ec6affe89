"""Asynchronous training computes with what was fetched during the step before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.testing.devices import create_local_cluster

Hook = tf.train.experimental.PrefetchParametersHook
RATE = 0.5


@pytest.fixture
def worker() -> Iterator[Any]:
    workers, parameter_servers = create_local_cluster(1, 1)
    yield workers[0]
    for server in [*workers, *parameter_servers]:
        server.stop()


def delayed(steps: int) -> list[list[float]]:
    """What gradient descent on (w - [1, 2])^2 / 2 makes of 0 where each gradient is of the value of one step before."""
    values = [np.zeros(2)]
    for i in range(steps):
        values.append(values[-1] - RATE * (values[max(i - 1, 0)] - [1.0, 2.0]))
    return [value.tolist() for value in values[1:]]


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_step_computes_with_what_the_one_before_has_fetched(worker: Any, use_resource: bool) -> None:
    hook = Hook()
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default(), tf.device(setter):
        w = tf.get_variable("w", [2], initializer=tf.zeros_initializer(), use_resource=use_resource)
        loss = tf.reduce_sum(tf.square(w - [1.0, 2.0])) / 2.0
        train = tf.train.GradientDescentOptimizer(RATE).minimize(loss)
        with tf.device("/job:ps/task:0"):
            there = w.read_value()
        with tf.train.MonitoredTrainingSession(worker.target, hooks=[hook]) as session:
            assert hook.variables == [w]
            seen = []
            for _ in range(5):
                session.run(train)
                seen.append(session.run(there).tolist())
    assert seen == delayed(5)


def test_what_is_fetched_ahead_is_named_so(worker: Any) -> None:
    """The name is what has links send it behind all else."""
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default() as graph, tf.device(setter):
        w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
        train = tf.train.GradientDescentOptimizer(RATE).minimize(tf.reduce_sum(tf.square(w - [1.0, 2.0])))
        hook = Hook()
        hook.begin()
        init = tf.global_variables_initializer(), tf.local_variables_initializer()
    with tf.Session(worker.target, graph=graph) as session:
        for op in init:
            session.run(op)
        hook.after_create_session(session, None)
        told = tf.RunMetadata()
        session.run(train, options=tf.RunOptions(output_partition_graphs=True), run_metadata=told)
    ahead = [
        node.attr["_src"].s.decode()
        for part in told.partition_graphs
        for node in part.node
        if node.op == "_Send" and node.attr["tensor_name"].s.startswith(b"ahead_")
    ]
    assert ahead == ["w/read"]


def test_what_was_restored_is_what_the_first_step_computes_with(worker: Any, tmp_path: Any) -> None:
    def train(steps: int) -> list[float]:
        setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
        with tf.Graph().as_default(), tf.device(setter):
            w = tf.get_variable("w", [2], initializer=tf.zeros_initializer())
            step = tf.train.get_or_create_global_step()
            loss = tf.reduce_sum(tf.square(w - [1.0, 2.0])) / 2.0
            op = tf.train.GradientDescentOptimizer(RATE).minimize(loss, step)
            with tf.device("/job:ps/task:0"):
                there = w.read_value()
            with tf.train.MonitoredTrainingSession(
                worker.target, checkpoint_dir=str(tmp_path), hooks=[Hook()], save_checkpoint_steps=1
            ) as session:
                for _ in range(steps):
                    session.run(op)
                found: list[float] = session.run(there).tolist()
                return found

    first = train(1)
    assert first == [0.5, 1.0]
    assert train(1) == [0.75, 1.5], "the gradient is of the value that was restored"


def test_rows_are_looked_up_where_they_are(worker: Any) -> None:
    hook = Hook()
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default(), tf.device(setter):
        table = tf.get_variable("table", [10, 2], initializer=tf.ones_initializer(), use_resource=True)
        rows = tf.nn.embedding_lookup(table, [3, 5])
        train = tf.train.GradientDescentOptimizer(RATE).minimize(tf.reduce_sum(tf.square(rows)) / 2.0)
        with tf.train.MonitoredTrainingSession(worker.target, hooks=[hook]) as session:
            for _ in range(2):
                session.run(train)
            assert session.run(rows).tolist() == [[0.25, 0.25]] * 2
    assert hook.variables == []


def test_alone_it_changes_nothing() -> None:
    with tf.Graph().as_default():
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        train = tf.train.GradientDescentOptimizer(RATE).minimize(tf.square(w - 1.0) / 2.0)
        with tf.train.MonitoredTrainingSession(hooks=[Hook()]) as session:
            for _ in range(2):
                session.run(train)
            assert session.run(w) == 0.75


def test_without_a_train_op_it_says_what_to_do() -> None:
    with tf.Graph().as_default():
        tf.get_variable("w", [], initializer=tf.zeros_initializer())
        with pytest.raises(ValueError, match="minimize"):
            tf.train.MonitoredTrainingSession(hooks=[Hook()])
