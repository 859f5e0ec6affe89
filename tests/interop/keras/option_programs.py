"""Programs with tf.keras whose layers and metrics have options: areas under curves, both directions, local kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.interop.keras.more_programs import _came_to, _data


def _given(model: Any) -> None:
    """Give a model weights that nothing draws."""
    random = np.random.RandomState(4)
    model.set_weights([random.rand(*value.shape) - 0.4 for value in model.get_weights()])


def areas(tf: Any, folder: str) -> Any:
    """Areas under both curves, by thresholds that are given, by label, of logits; summed up in all ways."""
    metrics, backend = tf.keras.metrics, tf.keras.backend
    truth = (_data(5, 3, seed=2) > 0.5).astype("float32")
    guess, later = _data(5, 3, seed=6), _data(5, 3, seed=8)
    weights = np.array([1, 2, 0.5, 3, 1], np.float32)
    kinds = [
        metrics.AUC(20),
        metrics.AUC(20, "PR"),
        *(metrics.AUC(10, curve, way) for curve in ("ROC", "PR") for way in ("minoring", "majoring")),
        metrics.AUC(10, "PR_GAIN"),
        metrics.AUC(10, "prgain", "Majoring"),
        metrics.AUC(thresholds=[0.8, 0.2, 0.3]),
        metrics.AUC(12, multi_label=True, name="each"),
        metrics.AUC(12, "PR", multi_label=True, num_labels=3, label_weights=[1.0, 0.5, 2.0]),
        metrics.AUC(12, label_weights=[1.0, 0.5, 2.0]),
        metrics.AUC(12, from_logits=True),
    ]
    found = []
    for kind in kinds:
        updates = [kind.update_state(truth, guess), kind.update_state(truth[::-1], later, weights[:, None])]
        backend.get_session().run([v.initializer for v in kind.weights])
        for update in updates:
            backend.get_session().run(update)
        shapes = [[v.name.rsplit("/", 1)[-1], v.shape.as_list()] for v in kind.weights]
        found.append([kind.name, float(backend.eval(kind.result())), shapes, sorted(kind.get_config())])
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, activation="sigmoid", input_shape=(4,))])
    _given(model)
    model.compile("sgd", "binary_crossentropy", [metrics.AUC(8, "PR", name="area"), "AUC"])
    history = model.fit(_data(5, 4), truth, epochs=2, verbose=0, shuffle=False)
    return {"found": found, "history": {k: [float(v) for v in vs] for k, vs in history.history.items()}}


def directions(tf: Any, folder: str) -> Any:
    """A backward layer of another kind; noise that is drawn from a seed; a threshold before the first checkpoint."""
    layers = tf.keras.layers
    back = layers.GRU(3, return_sequences=True, go_backwards=True, name="other")
    model = tf.keras.Sequential(
        [
            layers.GaussianNoise(0.2, 5, input_shape=(4, 3)),
            layers.Bidirectional(layers.LSTM(3, return_sequences=True), "sum", backward_layer=back),
            layers.Bidirectional(layers.SimpleRNN(2)),
            layers.Dense(2),
        ]
    )
    _given(model)
    model.compile("sgd", "mse")
    x, y = _data(6, 4, 3), _data(6, 2)
    path = f"{folder}/thresholds/at-{{epoch}}"
    history = model.fit(x, y, 3, epochs=2, verbose=0, shuffle=False)
    for threshold in (0.001, 100.0):
        saves = tf.keras.callbacks.ModelCheckpoint(
            f"{path}-{threshold}", "loss", 0, True, True, initial_value_threshold=threshold
        )
        model.fit(x, y, 6, epochs=1, verbose=0, shuffle=False, callbacks=[saves])
    copied = tf.keras.models.model_from_json(model.to_json())
    copied.set_weights(model.get_weights())
    wrong = []
    for given in (layers.GRU(3), layers.GRU(3, go_backwards=True, return_sequences=True), "backwards"):
        try:
            layers.Bidirectional(layers.LSTM(3), backward_layer=given)
        except ValueError as e:
            wrong.append(str(e)[:40])
    return {
        **_came_to(tf, model, history),
        "predicted": copied.predict(x[:2]).tolist(),
        "keys": [sorted(layer.get_config()) for layer in model.layers],
        "saved": sorted(path.name for path in Path(folder, "thresholds").glob("*")),
        "wrong": wrong,
    }


def local(tf: Any, folder: str) -> Any:
    """Kernels of their own at each place, and convolutions of steps in two parts."""
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.SeparableConv1D(4, 3, 1, "causal", depth_multiplier=2, input_shape=(9, 3), activation="tanh"),
            layers.SeparableConvolution1D(6, 2, dilation_rate=2, pointwise_regularizer="l2", use_bias=False),
            layers.SeparableConv1D(5, 3, 2, "same", bias_initializer="ones"),
            layers.LocallyConnected1D(6, 2, kernel_regularizer="l2", activation="relu"),
            layers.Reshape((3, 3, 2)),
            layers.LocallyConnected2D(3, 2, bias_initializer="ones", kernel_constraint="max_norm"),
            layers.LocallyConnected2D(2, (1, 2), padding="same", implementation=2),
            layers.Reshape((4, 2)),
            layers.LocallyConnected1D(3, 3, padding="same", implementation=3, use_bias=False),
            layers.LocallyConnected1D(2, 2, strides=2, implementation=2),
            layers.Flatten(),
        ]
    )
    _given(model)
    model.compile("sgd", "mse")
    x = _data(6, 9, 3)
    out = _came_to(tf, model, model.fit(x, _data(6, 4), batch_size=3, epochs=2, verbose=0, shuffle=False))
    copied = tf.keras.models.model_from_json(model.to_json())
    copied.set_weights(model.get_weights())
    return {
        **out,
        "predicted": copied.predict(x[:2]).tolist(),
        "shapes": [[*layer.output_shape] for layer in model.layers],
        "kernels": [v.shape.as_list() for v in model.weights],
        "keys": [sorted(layer.get_config()) for layer in model.layers],
    }


def convolved_memories(tf: Any, folder: str) -> Any:
    """Memories whose gates are convolutions of images."""
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.ConvLSTM2D(3, 3, padding="same", return_sequences=True, input_shape=(4, 5, 5, 2)),
            layers.ConvLSTM2D(2, (2, 3), (1, 2), activation="relu", unit_forget_bias=False, recurrent_regularizer="l2"),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )
    _given(model)
    model.compile("sgd", "mse")
    x = _data(4, 4, 5, 5, 2)
    out = _came_to(tf, model, model.fit(x, _data(4, 2), batch_size=2, epochs=2, verbose=0, shuffle=False))
    copied = tf.keras.models.model_from_json(model.to_json())
    copied.set_weights(model.get_weights())
    back = tf.keras.Sequential([layers.ConvLSTM2D(2, 2, go_backwards=True, use_bias=False, input_shape=(4, 5, 5, 2))])
    _given(back)
    return {
        **out,
        "predicted": copied.predict(x[:2]).tolist(),
        "backwards": back.predict(x[:1]).tolist(),
        "shapes": [[*layer.output_shape] for layer in model.layers],
        "kernels": [v.shape.as_list() for v in model.weights],
        "keys": sorted(model.layers[0].get_config()),
    }


PROGRAMS = {"areas": areas, "directions": directions, "local": local, "convolved_memories": convolved_memories}
