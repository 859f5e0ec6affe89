"""A user's program: an estimator made of a Keras model is trained and evaluated by whatever tasks run it.

python estimator_program.py MODEL_DIR STEPS
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import dtfctl.runtime as tf


def data(seed: int, repeated: bool) -> Callable[[], Any]:
    def input_fn() -> Any:
        x = np.random.RandomState(seed).rand(128, 2).astype(np.float32)
        made = tf.data.Dataset.from_tensor_slices(({"x": x}, 2.0 * x[:, :1] - x[:, 1:]))
        return (made.shuffle(64).repeat() if repeated else made).batch(16)

    return input_fn


def receiver() -> Any:
    x = tf.placeholder(tf.float32, [None, 2])
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def main(folder: str, steps: str) -> None:
    x = tf.keras.Input((2,), name="x")
    glorot = tf.keras.initializers.GlorotUniform(seed=1)
    hidden = tf.keras.layers.Dense(8, "relu", kernel_initializer=glorot, name="hidden")(x)
    model = tf.keras.Model(x, tf.keras.layers.Dense(1, kernel_initializer=glorot, name="out")(hidden))
    # Several tasks train without waiting for each other: by Adam, or at 0.1, a gradient that is one step late keeps two
    # of three such models from getting there.
    model.compile(tf.keras.optimizers.SGD(0.02), "mse", metrics=["mae"])
    config = tf.estimator.RunConfig(folder, save_checkpoints_steps=50, experimental_max_worker_delay_secs=0)
    made = tf.keras.estimator.model_to_estimator(model, config=config)
    found = tf.estimator.train_and_evaluate(
        made,
        tf.estimator.TrainSpec(data(1, True), max_steps=int(steps)),
        tf.estimator.EvalSpec(
            data(2, False), None, exporters=tf.estimator.FinalExporter("final", receiver), start_delay_secs=0,
            throttle_secs=0,
        ),
    )  # fmt: skip
    result = None if found is None else {key: float(value) for key, value in found[0].items()}
    print("found", config.task_type, config.task_id, result, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
