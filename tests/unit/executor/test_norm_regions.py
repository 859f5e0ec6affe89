"""Batch normalization and sums of columns as parts of regions have the values of their kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.executor import test_regions
from tests.unit.executor.test_regions import F, both, regions, same

at_once = test_regions.at_once


def _normalized(x: Any, is_training: bool, factor: float, name: str, data_format: str = "NHWC") -> Any:
    channels = int(x.shape[1 if data_format == "NCHW" else -1])
    scale = tf.get_variable("scale", initializer=np.linspace(0.5, 2, channels).astype(F))
    offset = tf.get_variable("offset", initializer=np.linspace(-1, 1, channels).astype(F))
    empty = is_training and factor == 1
    mean, variance = (np.full(0 if empty else channels, n, F) for n in (0.25, 1.5))
    return getattr(tf.raw_ops, name)(
        x=x,
        scale=scale,
        offset=offset,
        mean=tf.constant(mean),
        variance=tf.constant(variance),
        epsilon=1e-3,
        is_training=is_training,
        data_format=data_format,
        **({"exponential_avg_factor": factor} if name.endswith("V3") else {}),
    )


@pytest.mark.parametrize("shape", [(4, 3, 5, 6), (64, 4, 4, 2), (1, 40, 20, 3), (3, 700, 1, 4)])
@pytest.mark.parametrize(
    "name,is_training,factor",
    [
        *((f"FusedBatchNorm{v}", is_training, 1.0) for v in ("", "V2", "V3") for is_training in (True, False)),
        # Only the third version has moving averages.
        ("FusedBatchNormV3", True, 0.75),
    ],
)
def test_batch_norm_and_its_gradients(name: str, shape: tuple[int, ...], is_training: bool, factor: float) -> None:
    data = (np.random.RandomState(3).randn(*shape) * 2 + 3).astype(F)

    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, shape)
        made = _normalized(x, is_training, factor, name)
        y = tf.nn.relu(made[0] + x)
        loss = tf.reduce_sum(tf.square(y) * tf.constant(np.linspace(0, 1, data.size).reshape(shape).astype(F)))
        return [y, *list(made)[1:5], *tf.gradients(loss, [x, *tf.trainable_variables()])], {x: data}

    same(*both(make), close=2e-4)


def test_a_rectifier_and_a_sum_are_parts_of_its_region() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, (4, 8, 8, 3))
        y = tf.nn.relu(_normalized(x, True, 1.0, "FusedBatchNormV3")[0] + x)
        gradient = tf.gradients(tf.square(y), x)[0]
        session.run(tf.global_variables_initializer())
        for n in range(4):
            session.run([y, gradient], {x: np.full((4, 8, 8, 3), n, F)})
        found = regions(session)
    assert any({"FusedBatchNormV3", "AddV2", "Relu"} <= ops for ops in found)
    assert any("FusedBatchNormGradV3" in ops for ops in found)


def test_what_no_loop_takes_is_left_to_the_kernel() -> None:
    data = np.random.RandomState(0).randn(2, 3, 4, 5).astype(F)

    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, data.shape)
        wide = _normalized(x, True, 1.0, "FusedBatchNormV3", "NCHW")
        with tf.variable_scope("half"):
            half = _normalized(tf.cast(x, tf.float16), True, 1.0, "FusedBatchNormV3")
        return [wide[0], tf.cast(half[0], tf.float32), *list(wide)[1:5]], {x: data}

    same(*both(make, expected=False), close=1e-5)


def test_numbers_far_from_zero_keep_their_variance() -> None:
    data = (1e4 + np.random.RandomState(0).randn(16, 32, 32, 2)).astype(F)

    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, data.shape)
        made = _normalized(x, True, 1.0, "FusedBatchNormV3")
        return [tf.nn.relu(made[0]), made[3], made[4]], {x: data}

    _, got = both(make)
    wide = data.astype("f8").reshape(-1, 2)
    np.testing.assert_allclose(got[1], wide.mean(0), rtol=1e-6)
    np.testing.assert_allclose(got[2], wide.var(0), rtol=1e-4)


@pytest.mark.parametrize(
    "shape,axes", [((2000, 3), [0]), ((64, 40, 5), [0, 1]), ((1021, 4), [0]), ((600, 2, 1, 3), [0])]
)
@pytest.mark.parametrize("how", [tf.reduce_sum, tf.reduce_max, tf.reduce_mean])
def test_columns_are_reduced_in_blocks(how: Any, shape: tuple[int, ...], axes: list[int]) -> None:
    data = (np.random.RandomState(1).randn(*shape) + 1).astype(F)
    data[7] = 100

    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, shape)
        made = how(tf.transpose(tf.transpose(x) * 2.0) + 1.0, axes)
        return [made, tf.exp(-tf.abs(made))], {x: data}

    same(*both(make), close=1e-5)
