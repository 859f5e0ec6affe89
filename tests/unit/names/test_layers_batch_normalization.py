"""`tf.layers.batch_normalization` by one op or by several, and its types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

_MOMENTUM, _EPSILON = 0.9, 1e-3


def _train(x: np.ndarray[Any, Any], **options: Any) -> tuple[Any, Any, Any, bool]:
    """Give what comes of one step, the averages after it, and whether one op computes it."""
    with tf.Graph().as_default() as graph:
        training = tf.placeholder(tf.bool, [])
        y = tf.layers.batch_normalization(tf.constant(x), momentum=_MOMENTUM, training=training, **options)
        mean, variance = (v for v in tf.global_variables() if "moving" in v.name)
        slopes = tf.gradients(tf.reduce_sum(y * y), tf.trainable_variables())
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            normal = session.run([y, *slopes, tf.get_collection(tf.GraphKeys.UPDATE_OPS)], {training: True})[0]
            at_rest = session.run(y, {training: False})
            averages = session.run([mean, variance])
        assert at_rest.dtype == x.dtype
        wide, shape = x.astype("float64"), (1, -1, 1, 1) if "axis" in options else (1, 1, 1, -1)
        m, v = (a.astype("float64").reshape(shape) for a in averages)
        np.testing.assert_allclose(at_rest, (wide - m) / np.sqrt(v + _EPSILON), rtol=4e-3, atol=4e-3)
        return normal, averages[0], averages[1], "FusedBatchNormV3" in str(graph.as_graph_def())


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("fused", [None, True, False])
def test_each_type_with_each_way(dtype: str, fused: bool | None) -> None:
    x = (np.sin(np.arange(2 * 3 * 3 * 4)) + 0.5).astype(dtype).reshape(2, 3, 3, 4)
    wide = x.astype("float64")
    y, mean, variance, is_fused = _train(x, fused=fused)
    by_one_op = fused is not False and dtype != "float64"
    assert is_fused == by_one_op
    assert y.dtype == x.dtype and mean.dtype == variance.dtype == ("float64" if dtype == "float64" else "float32")
    axes = (0, 1, 2)
    digits = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-12}[dtype]
    batch = wide.var(axis=axes)
    np.testing.assert_allclose(y, (wide - wide.mean(axis=axes)) / np.sqrt(batch + _EPSILON), rtol=digits, atol=digits)
    np.testing.assert_allclose(mean, 0.1 * wide.mean(axis=axes), rtol=max(digits, 1e-6))
    # Only what one op computes is unbiased. How far averages move is a float32, as TensorFlow's.
    kept, rate = batch * 18 / 17 if by_one_op else batch, float(np.float32(1 - 0.9))
    wanted = 1 + rate * (kept - 1)
    np.testing.assert_allclose(variance, wanted, rtol=max(digits / 100, 1e-7) if by_one_op else digits / 100)


def test_the_axis_may_be_in_a_list() -> None:
    x = np.arange(2 * 4 * 3 * 3, dtype="float32").reshape(2, 4, 3, 3)
    for in_list, alone in zip(_train(x, axis=[1]), _train(x, axis=1)):
        np.testing.assert_equal(in_list, alone)
    with pytest.raises(ValueError, match="one axis"):
        tf.layers.batch_normalization(tf.constant(x), axis=[1, 2])


def test_five_dimensions_by_one_op() -> None:
    x = np.sin(np.arange(2 * 2 * 3 * 3 * 4, dtype="float32")).reshape(2, 2, 3, 3, 4)
    ones, zeros, none = np.ones(4, "float32"), np.zeros(4, "float32"), np.zeros(0, "float32")
    with tf.Graph().as_default(), tf.Session() as session:
        made = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=ones, offset=zeros, mean=none, variance=none, epsilon=_EPSILON, data_format="NDHWC"
        )
        y = session.run(made[0])
    axes = (0, 1, 2, 3)
    np.testing.assert_allclose(y, (x - x.mean(axes)) / np.sqrt(x.var(axes) + _EPSILON), rtol=1e-4, atol=1e-5)
