"""What networks are made of: layers, losses, convolutions, cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.fuzz.program import FLOATS, Program, Skip, Value


def normalized(p: Program) -> None:
    a = p.pick(FLOATS, 1)
    if 0 in a.shape:
        raise Skip
    nn = p.tf.nn
    axis = p.axis(a)
    kind = p.rng.randrange(6)
    if kind == 0:
        p.keep(f"softmax {axis}", nn.softmax(a.tensor, axis=axis), a.shape, a.dtype)
    elif kind == 1:
        p.keep(f"log_softmax {axis}", nn.log_softmax(a.tensor, axis=axis), a.shape, a.dtype)
    elif kind == 2:
        p.keep(
            "bias_add",
            nn.bias_add(a.tensor, p.constant(a.shape[-1:], a.dtype).tensor) if a.rank > 1 else a.tensor + 1.0,
            a.shape,
            a.dtype,
        )
    elif kind == 3:
        p.keep("l2_loss", nn.l2_loss(a.tensor), (), a.dtype)
    elif kind == 4:
        mean, variance = nn.moments(a.tensor, [0])
        p.keep(
            "batch_normalization",
            nn.batch_normalization(a.tensor, mean, variance + 0.3, 0.1, p.some(None, 1.2), 1e-3),
            a.shape,
            a.dtype,
        )
    else:
        p.keep("crelu", nn.crelu(p.off(a)), (*a.shape[:-1], a.shape[-1] * 2), a.dtype)


def loss(p: Program) -> None:
    tf = p.tf
    a = p.pick(("float32",), 2, 2)
    if 0 in a.shape:
        raise Skip
    rows, classes = a.shape
    kind = p.rng.randrange(9)
    x = p.calm(a.tensor)
    if kind == 0:
        labels = np.full(a.shape, 1.0 / classes, "float32")
        made = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=x)
        p.keep("softmax_cross_entropy", made, (rows,), a.dtype)
    elif kind == 1:
        labels = np.arange(rows) % classes
        made = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels.astype(p.some("int32", "int64")), logits=x)
        p.keep("sparse_softmax_cross_entropy", made, (rows,), a.dtype)
    elif kind == 2:
        made = tf.nn.sigmoid_cross_entropy_with_logits(
            labels=(p.array(a.shape, "float32") > 0).astype("float32"), logits=x
        )
        p.keep("sigmoid_cross_entropy", made, a.shape, a.dtype)
    elif kind == 3:
        made = tf.nn.weighted_cross_entropy_with_logits(p.array(a.shape, "bool").astype("float32"), x, 1.7)
        p.keep("weighted_cross_entropy", made, a.shape, a.dtype)
    else:
        names = [
            "mean_squared_error",
            "absolute_difference",
            "huber_loss",
            "hinge_loss",
            "log_loss",
            "sigmoid_cross_entropy",
            "softmax_cross_entropy",
            "cosine_distance",
        ]
        name = p.some(*names)
        target = p.array(a.shape, "bool").astype("float32")
        words: dict[str, Any] = {}
        if p.rng.random() < 0.4:
            words["reduction"] = getattr(
                tf.losses.Reduction, p.some("SUM", "MEAN", "SUM_OVER_BATCH_SIZE", "SUM_BY_NONZERO_WEIGHTS")
            )
        if p.rng.random() < 0.3:
            words["weights"] = p.some(0.5, np.linspace(0.0, 1.0, rows).astype("float32")[:, None])
            if name == "softmax_cross_entropy":
                words["weights"] = 0.5
        if name == "cosine_distance":
            words["axis"] = 1
        x = tf.sigmoid(x) * 0.9 + 0.05 if name == "log_loss" else p.off(Value(x, a.shape, a.dtype))
        p.keep(f"losses.{name} {sorted(words)}", getattr(tf.losses, name)(target, x, **words), (), a.dtype)


def picture(p: Program) -> Value:
    """A batch of pictures of those numbers that there are."""
    a = p.pick(("float32",), 1)
    if 0 in a.shape:
        raise Skip
    height, width, depth = p.some(4, 5), p.some(4, 6), p.some(1, 2)
    flat = p.tf.reshape(a.tensor, [-1])
    n = int(np.prod(a.shape))
    times = -(-height * width * depth // n)
    filled = p.tf.tile(flat, [times])[: height * width * depth]
    shape = (1, height, width, depth)
    return Value(p.tf.reshape(filled, shape) + p.tf.constant(p.array(shape, "float32")), shape, "float32")


def convolved(p: Program) -> None:
    tf, a = p.tf, picture(p)
    _, height, width, depth = a.shape
    padding, stride = p.some("SAME", "VALID"), p.some(1, 2)

    def size(n: int, k: int) -> int:
        return -(-n // stride) if padding == "SAME" else -(-(n - k + 1) // stride)

    kind = p.rng.randrange(9)
    k = p.some(2, 3)
    out = (1, size(height, k), size(width, k))
    strides = [1, stride, stride, 1]
    if kind == 0:
        kernel = p.constant((k, k, depth, 3)).tensor
        p.keep(f"conv2d {k} {stride} {padding}", tf.nn.conv2d(a.tensor, kernel, strides, padding), (*out, 3), "float32")
    elif kind == 1:
        kernel = p.constant((k, k, depth, 2)).tensor
        p.keep(
            "depthwise_conv2d", tf.nn.depthwise_conv2d(a.tensor, kernel, strides, padding), (*out, depth * 2), "float32"
        )
    elif kind == 2:
        name = p.some("max_pool", "avg_pool")
        p.keep(
            f"{name} {k} {stride} {padding}",
            getattr(tf.nn, name)(a.tensor, [1, k, k, 1], strides, padding),
            (*out, depth),
            "float32",
        )
    elif kind == 3:
        line = a.tensor[:, 0]
        kernel = p.constant((k, depth, 2)).tensor
        p.keep("conv1d", tf.nn.conv1d(line, kernel, stride, padding), (1, size(width, k), 2), "float32")
    elif kind == 4:
        kernel = p.constant((k, k, 3, depth)).tensor
        made = tf.nn.conv2d_transpose(a.tensor, kernel, [1, height * 2, width * 2, 3], [1, 2, 2, 1], "SAME")
        p.keep("conv2d_transpose", made, (1, height * 2, width * 2, 3), "float32")
    elif kind == 5:
        method = p.some("bilinear", "nearest_neighbor", "bicubic")
        call = getattr(tf.image, f"resize_{method}")
        p.keep(
            f"resize_{method}", call(a.tensor, [3, 7], align_corners=p.some(True, False)), (1, 3, 7, depth), "float32"
        )
    elif kind == 6:
        p.keep("lrn", tf.nn.local_response_normalization(a.tensor, 1, 1.0, 0.5, 0.5), a.shape, "float32")
    elif kind == 7:
        name = p.some("layers.conv2d", "layers.max_pooling2d", "layers.average_pooling2d", "layers.separable_conv2d")
        call = getattr(tf.layers, name[7:])
        words = {"strides": stride, "padding": padding.lower()}
        if "pooling" in name:
            p.keep(name, call(a.tensor, k, **words), (*out, depth), "float32")
        else:
            start = tf.constant_initializer(0.11)
            more = (
                {"kernel_initializer": start}
                if name == "layers.conv2d"
                else {"depthwise_initializer": start, "pointwise_initializer": start}
            )
            p.keep(
                name, call(a.tensor, 2, k, **words, **more, activation=p.some(None, tf.nn.elu)), (*out, 2), "float32"
            )
    else:
        rate = 2
        kernel = p.constant((2, 2, depth, 2)).tensor
        p.keep("atrous_conv2d", tf.nn.atrous_conv2d(a.tensor, kernel, rate, "SAME"), (1, height, width, 2), "float32")


def layer(p: Program) -> None:
    tf = p.tf
    a = p.pick(("float32",), 2, 3)
    # A layer has to know how wide its input is.
    if a.tensor.shape.rank is None or a.tensor.shape.as_list()[-1] is None or 0 in a.shape:
        raise Skip
    start = p.some(
        tf.constant_initializer(0.3), tf.glorot_uniform_initializer(seed=5), tf.random_normal_initializer(seed=3), None
    )
    if start is None:
        start = tf.ones_initializer()
    kind = p.rng.randrange(5)
    if kind <= 1:
        name = p.some(None, f"d{p.made}")
        words = {"activation": p.some(None, tf.nn.relu, tf.tanh), "use_bias": p.some(True, False), "name": name}
        p.keep(
            f"layers.dense {words['use_bias']}",
            tf.layers.dense(p.off(a), 3, kernel_initializer=start, **words),
            (*a.shape[:-1], 3),
            "float32",
        )
    elif kind == 2:
        training = p.some(True, False)
        p.keep(
            f"layers.batch_normalization {training}",
            tf.layers.batch_normalization(p.calm(a.tensor), training=training),
            a.shape,
            "float32",
        )
    elif kind == 3:
        p.keep("layers.flatten", tf.layers.flatten(a.tensor), (a.shape[0], int(np.prod(a.shape[1:]))), "float32")
    else:
        p.keep("layers.dropout", tf.layers.dropout(a.tensor, 0.5, training=False), a.shape, "float32")


def recurrent(p: Program) -> None:
    tf = p.tf
    a = p.pick(("float32",), 3, 3)
    static = a.tensor.shape.as_list() if a.tensor.shape.rank is not None else [None]
    if 0 in a.shape or static[-1] is None:
        raise Skip
    units = 2
    name = p.some("BasicRNNCell", "GRUCell", "LSTMCell", "BasicLSTMCell")
    with tf.variable_scope(f"r{p.made}_{len(p.items)}", initializer=tf.constant_initializer(0.21)):
        cell = getattr(tf.nn.rnn_cell, name)(units)
        words: dict[str, Any] = {"dtype": tf.float32}
        if p.rng.random() < 0.4:
            words["sequence_length"] = [1 + i % a.shape[1] for i in range(a.shape[0])]
        made, _ = tf.nn.dynamic_rnn(cell, p.calm(a.tensor), **words)
    p.keep(f"dynamic_rnn {name} {sorted(words)}", made, (*a.shape[:2], units), "float32")


def random_numbers(p: Program) -> None:
    """Those with seeds of their own are the same in every front end."""
    tf = p.tf
    shape = p.shape(1, 2)
    kind = p.rng.randrange(4)
    if kind == 0:
        made = tf.random_uniform(shape, -1.0, 2.0, seed=4)
    elif kind == 1:
        made = tf.random_normal(shape, 0.5, 2.0, seed=8)
    elif kind == 2:
        made = tf.truncated_normal(shape, seed=2)
    else:
        made = tf.cast(tf.random_uniform(shape, 0, 9, tf.int32, seed=1), tf.float32)
    # Each step draws anew: what hangs on it is compared in the first alone.
    p.note(f"random {kind} {shape}", made)
    p.items[-1].pure = False


MAKERS = [normalized, loss, loss, convolved, convolved, layer, layer, recurrent, random_numbers]
