"""Static shapes that follow from constants through any ops, as TensorFlow computes them while it builds the graph."""

from __future__ import annotations

from typing import Any

import pytest

import dtfctl.runtime as tf


def segments() -> tf.Tensor:
    return tf.segment_prod(tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), [0, 0, 1])


def masked() -> tf.Tensor:
    return tf.boolean_mask(tf.constant([1.0, 2.0, 3.0]), [True, False, True])


@pytest.mark.parametrize(
    "make, shape",
    [
        (lambda: tf.zeros(tf.shape(segments())), [2, 2]),
        (lambda: tf.broadcast_to(masked(), tf.stack([3, *tf.unstack(tf.shape(masked()))])), [3, 2]),
        (lambda: tf.scan(lambda a, x: a + x, segments(), reverse=True), [2, 2]),
        (lambda: tf.map_fn(tf.tanh, segments()), [2, 2]),
        (lambda: tf.zeros(tf.dynamic_stitch([[1], [0]], [[4], [5]])), [5, 4]),
        (lambda: tf.range(tf.reduce_sum(tf.cast(tf.square(tf.constant([1.0, 2.0])), tf.int32))), [5]),
        (lambda: tf.tile([1, 2], [tf.size(masked())]), [4]),
        # What a step alone knows stays unknown, and what is not of a step is not computed when it is too large.
        (lambda: tf.zeros(tf.shape(tf.boolean_mask([1.0, 2.0], tf.placeholder(tf.bool, [2])))), [None]),
        (lambda: tf.zeros(tf.cast(tf.random_uniform([1]) * 3, tf.int32)), [None]),
        (lambda: tf.zeros(tf.shape(tf.boolean_mask(tf.ones([1 << 23]), tf.ones([1 << 23], tf.bool)))), [None]),
    ],
)  # fmt: skip
def test_the_shape_is_known(make: Any, shape: list[int | None]) -> None:
    with tf.Graph().as_default():
        assert make().shape.as_list() == shape
        # The op itself says no more than before.
        assert segments().shape.as_list() == [None, 2]
