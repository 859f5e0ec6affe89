"""What a task's server counts about itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import dtfctl.runtime as tf
from dtfctl.figures import STEP_BOUNDS_S
from tests.support.clusters import InProcessCluster


def test_what_a_server_counts_and_holds(tmp_path: Path) -> None:
    cluster = InProcessCluster({"ps": 1, "worker": 1}, tmp_path, transport="tcp")
    cluster.start_all()
    try:
        ps, worker = cluster.servers["ps", 0], cluster.servers["worker", 0]
        with tf.Graph().as_default():
            with tf.device("/job:ps/task:0"):
                weights = tf.Variable(np.ones(1000, "f4"))
            with tf.device("/job:worker/task:0"):
                queue = tf.FIFOQueue(10, tf.float32, name="input")
                put = queue.enqueue_many([np.zeros(3, "f4")])
                total = tf.reduce_sum(weights)
            with tf.Session(cluster.target("worker", 0)) as session:
                session.run(weights.initializer)
                session.run(put)
                # Both are in one process here, and count together.
                before = ps.figures()
                for _ in range(5):
                    session.run(total)
                after = ps.figures()
                assert len(after.step_counts) == len(STEP_BOUNDS_S) + 1
                assert sum(after.step_counts) - sum(before.step_counts) >= 10
                assert after.steps_s > before.steps_s
                assert after.sent["tcp"] - before.sent.get("tcp", 0) >= 5 * 4000
                assert after.received["tcp"] - before.received.get("tcp", 0) >= 5 * 4000
                assert ps.figures().variables_bytes == 4000 and not ps.figures().queues
                assert worker.figures().variables_bytes == 0
                assert worker.figures().queues == {"input": 3}
                assert after.threads > 1
    finally:
        cluster.close()


def test_steps_that_fill_a_queue_wait_for_nobodys_input(tmp_path: Path) -> None:
    cluster = InProcessCluster({"worker": 1}, tmp_path, transport="tcp")
    cluster.start_all()
    try:
        worker = cluster.servers["worker", 0]
        with tf.Graph().as_default():
            row = tf.data.make_one_shot_iterator(tf.data.Dataset.range(1000).map(lambda i: i * 2)).get_next()
            queue = tf.FIFOQueue(10, tf.int64, name="input")
            put, got = queue.enqueue([row]), queue.dequeue()
            with tf.Session(cluster.target("worker", 0)) as session:
                session.run(put)
                before = worker.figures()
                for _ in range(5):
                    session.run(put)
                filled = worker.figures()
                assert (filled.step_counts, filled.steps_s) == (before.step_counts, before.steps_s)
                assert filled.input_s == before.input_s
                assert [session.run(got) for _ in range(3)] == [0, 2, 4]
                session.run(row)
                after = worker.figures()
                assert sum(after.step_counts) - sum(filled.step_counts) == 4
                assert after.steps_s >= after.input_s - filled.input_s > 0
    finally:
        cluster.close()
