"""`tf.contrib.tpu`: programs that may use TPUs run without."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.contrib import tpu


def _input(params: dict[str, int]) -> tf.data.Dataset:
    x = np.linspace(-1, 1, 16).astype(np.float32)[:, None]
    return tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x[:, 0])).batch(params["batch_size"], drop_remainder=True)


def _model(features: dict, labels: object, mode: str, params: dict) -> tpu.TPUEstimatorSpec:
    assert features["x"].shape.as_list() == [params["batch_size"], 1]
    out = tf.squeeze(tf.layers.dense(features["x"], 1), 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tpu.TPUEstimatorSpec(mode, predictions={"out": out})
    loss = tf.losses.mean_squared_error(labels, out)
    train = tf.train.GradientDescentOptimizer(params["rate"]).minimize(loss, tf.train.get_global_step())

    def judge(labels: object, out: object) -> dict:
        return {"off": tf.metrics.mean_absolute_error(labels, out)}

    return tpu.TPUEstimatorSpec(
        mode=mode,
        loss=loss,
        train_op=train,
        eval_metrics=(judge, [labels, out]),
        scaffold_fn=lambda: tf.train.Scaffold(),
    )


def test_the_estimator_runs_without_tpus(tmp_path: Path) -> None:
    assert tf.estimator.tpu.TPUEstimator is tpu.TPUEstimator
    config = tpu.RunConfig(
        cluster=None,
        master=None,
        model_dir=str(tmp_path),
        save_checkpoints_steps=50,
        tpu_config=tpu.TPUConfig(
            iterations_per_loop=10, per_host_input_for_training=tpu.InputPipelineConfig.PER_HOST_V2
        ),
    )
    made = tpu.TPUEstimator(
        _model,
        config=config,
        params={"rate": 0.3},
        use_tpu=False,
        train_batch_size=8,
        eval_batch_size=4,
        predict_batch_size=2,
    )
    made.train(lambda params: _input(params).repeat(), max_steps=60)
    found = made.evaluate(_input)
    assert found["global_step"] == 60 and found["off"] < 0.1
    assert len(list(made.predict(_input))) == 16 and made.params == {"rate": 0.3}
    with pytest.raises(ValueError, match="use_tpu must be False"):
        tpu.TPUEstimator(_model, config=config)
    with pytest.raises(ValueError, match="batch_size"):
        tpu.TPUEstimator(_model, config=config, use_tpu=False, params={"batch_size": 1})
    with pytest.raises(ValueError, match="no TPUs here"):
        tpu.RunConfig(cluster=object())
