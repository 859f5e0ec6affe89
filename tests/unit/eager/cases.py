"""Small eager programs whose values stock TensorFlow has computed: `expected.json` is `results(tensorflow.compat.v1)`.

To make the file anew: `python cases.py > expected.json` where TensorFlow 2.21 is installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

_RNG = np.random.RandomState(0)
P = _RNG.uniform(0.2, 0.9, (3, 4)).astype(np.float32)
Q = _RNG.uniform(0.2, 0.9, (3, 4)).astype(np.float32)
M = _RNG.uniform(0.2, 0.9, (4, 5)).astype(np.float32)

UNARY = (
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "square",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "asin",
    "acos",
    "atan",
    "erf",
    "lgamma",
    "digamma",
    "reciprocal",
    "log1p",
    "expm1",
    "sinh",
    "cosh",
    "abs",
    "negative",
)
BINARY = ("multiply", "divide", "pow", "maximum", "squared_difference", "subtract", "atan2", "floormod")


def functions(tf: Any) -> dict[str, Callable[[Any], Any]]:
    """Functions of a float32 [3, 4]."""

    def image(x: Any) -> Any:
        return tf.reshape(x, [1, 3, 4, 1])

    def gram(x: Any) -> Any:
        return tf.matmul(x, x, transpose_b=True) + tf.eye(3)

    kernel = M[:2, :2].reshape(2, 2, 1, 1)
    return {
        "relu": lambda x: tf.nn.relu(x - 0.5),
        "elu": lambda x: tf.nn.elu(x - 0.5),
        "softplus": tf.nn.softplus,
        "softmax": lambda x: tf.nn.softmax(x) ** 2,
        "log_softmax": tf.nn.log_softmax,
        "sum": lambda x: tf.reduce_sum(x, 1) ** 2,
        "mean": lambda x: tf.reduce_mean(x, 0) ** 2,
        "max": lambda x: tf.reduce_max(x, 1),
        "prod": lambda x: tf.reduce_prod(x, 1),
        "logsumexp": lambda x: tf.reduce_logsumexp(x, 1),
        "matmul": lambda x: tf.matmul(x, M),
        "transpose": lambda x: tf.transpose(x) * P.T,
        "slice": lambda x: x[1:, ::2] ** 2,
        "concat": lambda x: tf.concat([x, x * 2], 0) ** 2,
        "stack": lambda x: tf.stack([x, x * x]),
        "split": lambda x: tf.split(x, 2, 1)[0] ** 2,
        "pad": lambda x: tf.pad(x, [[1, 1], [0, 2]]) ** 2,
        "tile": lambda x: tf.tile(x, [2, 1]) ** 2,
        "where": lambda x: tf.where(x > 0.5, x * 2, x * x),
        "clip": lambda x: tf.clip_by_value(x, 0.3, 0.6) * x,
        "cumsum": lambda x: tf.cumsum(x, 1) ** 2,
        "top_k": lambda x: tf.nn.top_k(x, 2)[0] ** 2,
        "segment_sum": lambda x: tf.math.segment_sum(x, [0, 0, 1]) ** 2,
        "cross_entropy": lambda x: tf.nn.softmax_cross_entropy_with_logits_v2(labels=Q, logits=x),
        "sparse_entropy": lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[1, 0, 2], logits=x),
        "conv2d": lambda x: tf.nn.conv2d(image(x), kernel, [1, 1, 1, 1], "SAME") ** 2,
        "max_pool": lambda x: tf.nn.max_pool(image(x), [1, 2, 2, 1], [1, 1, 1, 1], "VALID") ** 2,
        "inverse": lambda x: tf.linalg.inv(gram(x)),
        "cholesky": lambda x: tf.linalg.cholesky(gram(x)),
        "determinant": lambda x: tf.linalg.det(gram(x)),
        "while": lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [tf.constant(0), x])[1],
        "cond": lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * x, lambda: x),
        "map_fn": lambda x: tf.map_fn(lambda r: r * r, x),
        "scan": lambda x: tf.scan(lambda a, b: a * b, x),
        "stop": lambda x: tf.stop_gradient(x) * x,
        "cast": lambda x: tf.cast(x, tf.float64) ** 2,
        "moments": lambda x: tf.nn.moments(x, [0])[1],
    }


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda tf: tf.train.GradientDescentOptimizer(0.01),
    "adam": lambda tf: tf.train.AdamOptimizer(0.01),
    "momentum": lambda tf: tf.train.MomentumOptimizer(0.01, 0.9),
    "nesterov": lambda tf: tf.train.MomentumOptimizer(0.01, 0.9, use_nesterov=True),
    "adagrad": lambda tf: tf.train.AdagradOptimizer(0.01),
    "rmsprop": lambda tf: tf.train.RMSPropOptimizer(0.01),
    "ftrl": lambda tf: tf.train.FtrlOptimizer(0.01),
}


def unary(tf: Any, name: str) -> list[Any]:
    """Value, first and second derivative."""
    function = getattr(tf.math, name)
    x = tf.constant(P)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        first = tape.gradient(y, x)
    return [y, first, outer.gradient(first, x)]


def binary(tf: Any, name: str) -> list[Any]:
    """Value and derivatives by a [3, 4] and a [4]."""
    x, y = tf.constant(P), tf.constant(Q[0])
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        z = getattr(tf.math, name)(x, y)
    return [z, *tape.gradient(z, [x, y])]


def derived(tf: Any, function: Callable[[Any], Any]) -> list[Any]:
    """Value and derivative."""
    x = tf.constant(P)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return [y, tape.gradient(y, x)]


def trained(tf: Any, name: str) -> list[Any]:
    """Variables after four steps of an optimizer."""
    optimizer = OPTIMIZERS[name](tf)
    w, k = tf.Variable(P), tf.Variable(M)

    def loss() -> Any:
        return tf.reduce_sum(tf.matmul(w, k) ** 2) + tf.reduce_sum(tf.gather(w, [0, 0]))

    for _ in range(4):
        optimizer.minimize(loss)
    return [w, k]


def plain(values: list[Any]) -> Any:
    return [None if v is None else np.round(np.asarray(v.numpy(), np.float64), 7).tolist() for v in values]


def results(tf: Any) -> dict[str, Any]:
    return {
        **{f"unary {name}": plain(unary(tf, name)) for name in UNARY},
        **{f"binary {name}": plain(binary(tf, name)) for name in BINARY},
        **{f"derived {name}": plain(derived(tf, f)) for name, f in functions(tf).items()},
        **{f"trained {name}": plain(trained(tf, name)) for name in OPTIMIZERS},
    }


if __name__ == "__main__":
    import tensorflow.compat.v1 as stock

    stock.enable_eager_execution()
    print("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in results(stock).items()) + "\n}")
