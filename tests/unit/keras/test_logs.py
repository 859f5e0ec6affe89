"""What callbacks and histories are told are plain numbers, which programs write down as JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import dtfctl.runtime as tf


def test_histories_and_logs_are_plain_numbers() -> None:
    told: list[dict[str, Any]] = []

    class Told(tf.keras.callbacks.Callback):
        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            told.append(dict(logs))

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            told.append(dict(logs))

    with tf.Graph().as_default():
        model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
        model.compile("sgd", "mse", metrics=["mae"])
        x, y = np.ones((4, 2)), np.ones((4, 1))
        history = model.fit(x, y, batch_size=2, epochs=2, verbose=0, validation_data=(x, y), callbacks=[Told()])
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(2)
        other = model.fit(data, epochs=1, verbose=0)
    assert json.loads(json.dumps(history.history)) == history.history and json.dumps(other.history)
    assert {type(v) for values in (history.history | other.history).values() for v in values} == {float}
    assert {type(v) for logs in told for v in logs.values()} == {int, float}
