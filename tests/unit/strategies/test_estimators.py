"""Estimators that train by a strategy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.strategies.test_mirrored import CPUS, X, Y, mirrored


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    hidden = tf.layers.dense(features, 2, kernel_initializer=tf.constant_initializer(0.1))
    loss = tf.losses.mean_squared_error(labels, hidden)
    if mode == "eval":
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def weights(folder: Path, strategy: Any, rows: int) -> Any:
    config = tf.estimator.RunConfig(str(folder), train_distribute=strategy, session_config=CPUS)
    estimator = tf.estimator.Estimator(model_fn, config=config)

    def inputs() -> Any:
        return tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(rows)

    estimator.train(inputs, steps=3)
    assert estimator.get_variable_value("global_step") == 3
    assert estimator.evaluate(inputs, steps=1)["loss"] > 0
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def test_an_estimator_trains_by_a_strategy(tmp_path: Path) -> None:
    alone = weights(tmp_path / "alone", None, 8)
    together = weights(tmp_path / "together", mirrored(2), 4)
    assert together.keys() == alone.keys() and "dense/kernel/Momentum" in alone
    for name, value in alone.items():
        np.testing.assert_allclose(together[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_what_an_estimator_cannot_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"must be a tf.distribute.Strategy, not str"):
        tf.estimator.RunConfig(train_distribute="mirrored")
    with pytest.raises(ValueError, match="eval_distribute is not supported"):
        tf.estimator.RunConfig(eval_distribute=mirrored(2))
    config = tf.estimator.RunConfig(str(tmp_path), train_distribute=mirrored(2))
    with pytest.raises(ValueError, match=r"must return a tf.data.Dataset"):
        tf.estimator.Estimator(model_fn, config=config).train(lambda: (tf.constant(X), tf.constant(Y)), steps=1)
