"""One SGD step of a two-layer perceptron, 784-HIDDEN-10; local, or weights on a ps and compute on a worker."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs import Program, session_config, tasks_of


def build(tf: Any, target: str, batch: int, hidden: int) -> Program:
    random = np.random.RandomState(0)
    spread = bool(target)
    weights_at = "/job:ps/task:0/device:CPU:0" if spread else "/device:CPU:0"
    compute_at = "/job:worker/task:0/device:CPU:0" if spread else "/device:CPU:0"
    graph = tf.Graph()
    with graph.as_default():
        with tf.device(weights_at):
            w1 = tf.Variable(random.randn(784, hidden).astype("f4") * 0.05, name="w1")
            b1 = tf.Variable(np.zeros(hidden, "f4"), name="b1")
            w2 = tf.Variable(random.randn(hidden, 10).astype("f4") * 0.05, name="w2")
            b2 = tf.Variable(np.zeros(10, "f4"), name="b2")
        with tf.device(compute_at):
            # Variables, because constants would let an optimiser compute ahead.
            x = tf.Variable(random.rand(batch, 784).astype("f4"), trainable=False, name="x")
            labels = tf.Variable(np.eye(10, dtype="f4")[random.randint(0, 10, batch)], trainable=False, name="labels")
            layer = tf.nn.relu(tf.matmul(x, w1) + b1)
            logits = tf.matmul(layer, w2) + b2
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits))
            train = tf.train.GradientDescentOptimizer(1e-3).minimize(loss)
        init = tf.global_variables_initializer()
        filters = tasks_of(1, 1) if spread else ()
        session = tf.Session(target, graph=graph, config=session_config(tf, tasks=filters))
    step = session.make_callable(train)
    session.run(init)

    def values() -> list[float]:
        session.run(init)
        losses = []
        for _ in range(5):
            step()
            losses.append(float(session.run(loss)))
        return losses

    return Program(step, values, session.close)
