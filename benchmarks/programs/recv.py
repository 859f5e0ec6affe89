"""A tensor of one task used by another: the worker gets all of a ps's variable and takes elements from all over it."""

from __future__ import annotations

from typing import Any

from benchmarks.programs import Program, sample, session_config, tasks_of


def build(tf: Any, target: str, elements: int) -> Program:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0/device:CPU:0"):
            start = tf.linspace(1.0, 2.0, elements) if elements > 1 else tf.fill([1], 1.5)
            weights = tf.Variable(start, name="weights")
            pulled = tf.identity(weights)
            mean_there = tf.reduce_mean(tf.cast(weights, tf.float64))
        with tf.device("/job:worker/task:0/device:CPU:0"):
            probe = sample(tf, tf.identity(pulled), elements)
            mean_here = tf.reduce_mean(tf.cast(pulled, tf.float64))
        init = tf.global_variables_initializer()
        session = tf.Session(target, graph=graph, config=session_config(tf, True, tasks_of(1, 1)))
    # The worker's part of the fetch, some 64 elements, is all the client sees.
    step = session.make_callable(probe)
    session.run(init)

    def values() -> list[float]:
        session.run(init)
        here, there = session.run([mean_here, mean_there])
        if abs(here - there) > 1e-9:
            raise AssertionError(f"the worker got other bytes than the ps has: mean {here} against {there}")
        return [float(there), *(float(v) for v in step())]

    return Program(step, values, session.close)
