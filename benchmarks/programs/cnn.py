"""One SGD step of a small convolutional network: three convolutions and a dense layer on 28x28 images."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.programs import Program, session_config


def build(tf: Any, target: str, batch: int = 32) -> Program:
    random = np.random.RandomState(0)
    graph = tf.Graph()
    with graph.as_default():
        images = tf.Variable(random.rand(batch, 28, 28, 1).astype("f4"), trainable=False, name="images")
        labels = tf.Variable(np.eye(10, dtype="f4")[random.randint(0, 10, batch)], trainable=False, name="labels")
        layer = images
        for i, (inputs, outputs) in enumerate([(1, 32), (32, 64), (64, 64)]):
            kernel = tf.Variable(random.randn(3, 3, inputs, outputs).astype("f4") * 0.05, name=f"kernel{i}")
            bias = tf.Variable(np.zeros(outputs, "f4"), name=f"bias{i}")
            layer = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(layer, kernel, strides=[1, 1, 1, 1], padding="SAME"), bias))
            if i < 2:
                layer = tf.nn.max_pool(layer, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
        flat = tf.reshape(layer, [batch, 7 * 7 * 64])
        dense = tf.Variable(random.randn(7 * 7 * 64, 10).astype("f4") * 0.01, name="dense")
        loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=tf.matmul(flat, dense)))
        train = tf.train.GradientDescentOptimizer(1e-3).minimize(loss)
        init = tf.global_variables_initializer()
        session = tf.Session(target, graph=graph, config=session_config(tf))
    step = session.make_callable(train)
    session.run(init)

    def values() -> list[float]:
        session.run(init)
        losses = []
        for _ in range(3):
            step()
            losses.append(float(session.run(loss)))
        return losses

    return Program(step, values, session.close)
