"""Batch normalization in every mode: the ops it makes, its values, gradients and averages."""

from __future__ import annotations

from typing import Any

import numpy as np


def _inputs(*shape: int) -> Any:
    return np.sin(np.arange(np.prod(shape)) * 0.7).reshape(shape).astype("float32") + 0.3


def _with_gradients(tf: Any, outputs: list[Any], x: Any, data: Any, more: Any = None) -> Any:
    loss = tf.add_n([tf.reduce_sum(tf.square(y) * 0.5 + y) for y in outputs])
    wanted = [x, *tf.trainable_variables()]
    gradients = [g for g in tf.gradients(loss, wanted) if g is not None]
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    feeds = [{x: data, **f} for f in (more or [{}])]
    steps: list[Any] = []
    for feed in feeds:
        steps += [([*outputs, *gradients], feed), (updates, feed), (tf.global_variables(), {})]
    return steps


def batch_norms_of_images(tf: Any) -> Any:
    """By one op, of channels last and first, with and without scale and offset."""
    x = tf.placeholder(tf.float32, [None, 3, 3, 4], name="x")
    first = tf.transpose(x, [0, 3, 1, 2])
    norm = tf.layers.batch_normalization
    outputs = [
        norm(x),
        norm(x, training=True, name="train"),
        norm(x, scale=False, center=False),
        norm(x, scale=False, momentum=0.9, epsilon=1e-5, training=True),
        norm(first, axis=1),
        norm(x, fused=False),
        norm(x, axis=2),
    ]
    return _with_gradients(tf, outputs, x, _inputs(2, 3, 3, 4))


def batch_norms_of_features(tf: Any) -> Any:
    """By elementary ops: rows, sequences and float64; by one op: volumes."""
    x = tf.placeholder(tf.float32, [4, 6], name="x")
    norm = tf.layers.batch_normalization
    outputs = [
        norm(x),
        norm(x, training=True, momentum=0.7),
        norm(tf.reshape(x, [4, 2, 3]), axis=1, training=True),
        tf.cast(norm(tf.cast(x, tf.float64), training=True), tf.float32),
        norm(tf.reshape(x, [2, 2, 1, 2, 3]), training=True),
        norm(tf.reshape(x, [2, 2, 1, 2, 3]), axis=3, training=True),
    ]
    return _with_gradients(tf, outputs, x, _inputs(4, 6))


def batch_norms_told_by_a_step(tf: Any) -> Any:
    """Whether it trains is fed."""
    x = tf.placeholder(tf.float32, [4, 2, 3, 4], name="x")
    training = tf.placeholder_with_default(False, [], name="training")
    norm = tf.layers.batch_normalization
    outputs = [norm(x, training=training), norm(tf.reshape(x, [-1, 4]), training=training)]
    feeds: list[dict[Any, Any]] = [{training: True}, {training: False}, {}]
    return _with_gradients(tf, outputs, x, _inputs(4, 2, 3, 4), feeds)


def batch_norms_of_keras(tf: Any) -> Any:
    """As layers of keras, which keep resource variables."""
    x = tf.placeholder(tf.float32, [4, 2, 3, 4], name="x")
    flat = tf.reshape(x, [-1, 4])
    layer, rows = tf.keras.layers.BatchNormalization(), tf.keras.layers.BatchNormalization(scale=False)
    outputs = [layer(x, training=False), layer(x, training=True), rows(flat, training=False), rows(flat, training=True)]
    loss = tf.add_n([tf.reduce_sum(tf.square(y) * 0.5 + y) for y in outputs])
    gradients = tf.gradients(loss, [x, *layer.trainable_variables, *rows.trainable_variables])
    data = {x: _inputs(4, 2, 3, 4)}
    return [([*outputs, *gradients], data), ([*layer.updates, *rows.updates], data), (tf.global_variables(), {})]
