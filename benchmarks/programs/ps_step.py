"""A synchronous data-parallel step without compute: every worker pulls a variable of a ps and pushes a gradient of its
size, the ps sums and applies. The gradient is what was pulled, so nothing can be left out; or it is computed from
that, so that it is not the same memory either."""

from __future__ import annotations

from typing import Any

from benchmarks.programs import Program, sample, session_config, tasks_of


def build(tf: Any, target: str, elements: int, workers: int = 2, computed: bool = False) -> Program:
    graph = tf.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0/device:CPU:0"):
            start = tf.linspace(1.0, 2.0, elements) if elements > 1 else tf.fill([1], 1.5)
            weights = tf.Variable(start, name="weights")
            pulled = tf.identity(weights)
        gradients = []
        for i in range(workers):
            with tf.device(f"/job:worker/task:{i}/device:CPU:0"):
                gradients.append(tf.multiply(pulled, 0.5) if computed else tf.identity(pulled))
        with tf.device("/job:ps/task:0/device:CPU:0"):
            total = tf.add_n(gradients) if workers > 1 else gradients[0]
            # Small enough that a million steps decay by less than half.
            update = tf.train.GradientDescentOptimizer(2.0**-20 / workers).apply_gradients([(total, weights)])
            probe = sample(tf, weights, elements)
        init = tf.global_variables_initializer()
        session = tf.Session(target, graph=graph, config=session_config(tf, True, tasks_of(1, workers)))
    step = session.make_callable(update)
    session.run(init)

    def values() -> list[float]:
        session.run(init)
        for _ in range(3):
            step()
        return [float(v) for v in session.run(probe)]

    return Program(step, values, session.close)
