"""`tf.train.Checkpoint` and its manager in a cluster: who writes what, and what is found again."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dtfctl.runtime as tf
from tests.support.clusters import in_process_cluster


def test_each_task_writes_its_parts_of_a_table_and_what_the_optimizer_keeps_of_them(tmp_path: Path) -> None:
    with in_process_cluster({"ps": 2, "worker": 1}) as cluster, tf.Graph().as_default():
        setter = tf.train.replica_device_setter(ps_tasks=2)
        with tf.device(setter), tf.variable_scope("", partitioner=tf.fixed_size_partitioner(2)):
            table = tf.get_variable("table", [6, 2], initializer=tf.ones_initializer())
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, [1, 4], partition_strategy="div"))
            optimizer = tf.train.AdagradOptimizer(0.5)
            train = optimizer.minimize(loss)
        parts = tf.trainable_variables()
        manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(parts=parts, optimizer=optimizer), str(tmp_path), max_to_keep=2
        )
        with tf.Session(cluster.target("worker", 0)):
            assert manager.restore_or_initialize() is None
            train.run()
            path = manager.save()
            values = [v.eval() for v in tf.global_variables()]
            train.run()
            assert not all(np.array_equal(v.eval(), was) for v, was in zip(tf.global_variables(), values))
            assert manager.restore_or_initialize() == path
            for variable, was in zip(tf.global_variables(), values):
                np.testing.assert_array_equal(variable.eval(), was)
    # The objects' description is written by the task that the session is of.
    assert sorted(f.name for f in tmp_path.glob("*.data-*")) == [f"ckpt-1.data-0000{i}-of-00003" for i in range(3)]
    assert {part.device for part in parts} == {"/job:ps/task:0", "/job:ps/task:1"}


def test_parts_of_a_table_are_tensors_of_their_own(tmp_path: Path) -> None:
    """As in TensorFlow: whoever reads the checkpoint, to show or convert it, finds each of them whole."""
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(2)):
            tf.get_variable("table", [10, 3], initializer=tf.random_uniform_initializer())
        parts = tf.trainable_variables()
        session.run(tf.global_variables_initializer())
        path = tf.train.Checkpoint(tables=parts).save(str(tmp_path / "model"))
        values = session.run(parts)
    reader = tf.train.load_checkpoint(path)
    for number, value in enumerate(values):
        np.testing.assert_array_equal(reader.get_tensor(f"tables/{number}/.ATTRIBUTES/VARIABLE_VALUE"), value)
