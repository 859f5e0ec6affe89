"""TF1 programs made at random out of the API: the same for the same number, with any front end.

As a program, for TensorFlow: `python -m tests.interop.fronts.random_programs OUT FIRST COUNT`.
"""

from __future__ import annotations

import json
import random
import sys
from typing import Any

import numpy as np

UNARY = ["tanh", "sigmoid", "abs", "square", "negative", "sin", "cos", "exp", "floor", "sign", "zeros_like", "identity"]
NN = ["relu", "softplus", "elu", "softmax", "log_softmax", "relu6", "l2_loss"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "squared_difference"]
REDUCED = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min"]


def run(tf: Any, number: int) -> Any:
    """Build and run one program; gives names, shapes and numbers as JSON's values."""
    rng = random.Random(number)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3, 4], name="x")
        values = [x, tf.constant(np.linspace(-1.0, 1.0, 12).reshape(3, 4), tf.float32)]
        for i in range(rng.randint(1, 3)):
            start = np.cos(np.arange(12) * (i + 1.0)).reshape(3, 4).astype(np.float32)
            with tf.variable_scope(rng.choice(["a", "b", "a/c"]), reuse=tf.AUTO_REUSE):
                values.append(tf.get_variable(f"v{i}", initializer=start, use_resource=rng.random() < 0.5))
        for _ in range(rng.randint(4, 14)):
            with tf.name_scope(rng.choice(["one", "two"])):
                values.append(_grown(tf, rng, values))
        made = values[-1]
        loss = tf.reduce_mean(tf.tanh(made)) + tf.add_n(
            [tf.reduce_mean(tf.square(v)) for v in tf.trainable_variables()]
        )
        gradients = [g for g in tf.gradients(loss, [x, *tf.trainable_variables()]) if g is not None]
        kinds = ["GradientDescentOptimizer", "AdamOptimizer", "AdagradOptimizer", "RMSPropOptimizer", "FtrlOptimizer"]
        train = getattr(tf.train, rng.choice(kinds))(0.05).minimize(loss)
        feed = {x: np.sin(np.arange(12)).reshape(3, 4)}
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            first = session.run([made, loss, *gradients], feed)
            for _ in range(3):
                session.run(train, feed)
            last = session.run([made, loss], feed)
            kept = {v.op.name: session.run(v) for v in tf.global_variables()}
        return {
            "shape": made.shape.as_list(),
            "values": [_plain(v) for v in [*first, *last]],
            "variables": {name: _plain(value) for name, value in sorted(kept.items())},
        }


def _grown(tf: Any, rng: random.Random, values: list[Any]) -> Any:
    """Make one more [3, 4] tensor of those there are."""
    a, b = rng.choice(values), rng.choice(values)
    kind = rng.randrange(9)
    if kind == 0:
        return getattr(tf, rng.choice(UNARY))(tf.clip_by_value(a, -3.0, 3.0))
    if kind == 1:
        return getattr(tf.nn, rng.choice(NN))(a) + tf.zeros([3, 4])
    if kind == 2:
        return getattr(tf, rng.choice(BINARY))(a, b)
    if kind == 3:
        return getattr(tf, rng.choice(REDUCED))(a, axis=rng.choice([0, 1]), keepdims=True) * b
    if kind == 4:
        return tf.matmul(tf.matmul(a, b, transpose_b=True), b) * 0.1
    if kind == 5:
        return tf.where(tf.greater(a, b), a, tf.tanh(b))
    if kind == 6:
        return tf.concat(tf.split(a, 2, axis=1)[::-1], axis=1)
    if kind == 7:
        # Not what sums of the values above come to: those are a matter of the order of their terms.
        limit = rng.choice([-1.03, 0.03, 1.03])
        return tf.cond(tf.reduce_sum(a) > limit, lambda: a * 0.5, lambda: tf.cos(b))
    _, made = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, tf.tanh(t + b)), (tf.constant(0), a + 0.0))
    return made


def _plain(value: Any) -> Any:
    return [float(f"{float(v):.6g}") for v in np.asarray(value).ravel()]


def main(out: str, first: str, count: str) -> None:
    """Run some with TensorFlow."""
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    found = {number: run(tf, number) for number in range(int(first), int(first) + int(count))}
    with open(out, "w") as file:
        json.dump(found, file, separators=(",", ":"))


if __name__ == "__main__":
    main(*sys.argv[1:])
