"""A sparse step: every worker pulls some rows of a large table on a ps and pushes their gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs import Program, session_config, tasks_of


def build(tf: Any, target: str, table_bytes: int, rows: int = 32, workers: int = 2, width: int = 64) -> Program:
    height = table_bytes // (4 * width)
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0/device:CPU:0"):
            table = tf.Variable(tf.fill([height, width], 1.0), name="table")
        pushes, inits, probes = [], [], []
        for i in range(workers):
            with tf.device(f"/job:worker/task:{i}/device:CPU:0"):
                first = np.random.RandomState(i).randint(0, height, rows)
                cursor = tf.Variable(0, trainable=False, name=f"cursor{i}")
                # Other rows in each step, the same ones on both runtimes.
                ids = tf.floormod(tf.constant(first, tf.int32) + tf.assign_add(cursor, 7919), height)
            with tf.device("/job:ps/task:0/device:CPU:0"):
                pulled = tf.gather(table, ids)
            with tf.device(f"/job:worker/task:{i}/device:CPU:0"):
                gradient = pulled * 0.5
            with tf.device("/job:ps/task:0/device:CPU:0"):
                pushes.append(tf.scatter_sub(table, ids, gradient * 1e-3).op)
                probes.append(tf.reduce_sum(tf.gather(table, tf.floormod(first + 7919, height))))
        inits = tf.global_variables_initializer()
        session = tf.Session(target, graph=graph, config=session_config(tf, tasks=tasks_of(1, workers)))
    step = session.make_callable(pushes)
    session.run(inits)

    def values() -> list[float]:
        session.run(inits)
        for _ in range(3):
            step()
        return [float(v) for v in session.run(probes)]

    return Program(step, values, session.close)
