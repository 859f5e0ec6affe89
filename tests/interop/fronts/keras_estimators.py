"""Estimators of Keras's models: each program takes `tf` and a folder, trains there, and gives what it found.

As a program, for TensorFlow 2.15, the last that has `tf.estimator`, with TensorFlow 1's behaviour:
`python -m tests.interop.fronts.keras_estimators FOLDER`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

X = np.linspace(-1.0, 1.0, 64).reshape(32, 2).astype(np.float32)
Y = (X[:, :1] * 2.0 - X[:, 1:] * X[:, 1:]).astype(np.float32)
CLASSES = (np.arange(32) % 3).astype(np.int64)


class _Losses:
    """Keep the loss of each step: a hook is made of it."""

    def __init__(self, tf: Any) -> None:
        self.seen: list[float] = []
        outer = self

        class Hook(tf.train.SessionRunHook):  # type: ignore[name-defined, misc]
            def before_run(self, run_context: Any) -> Any:
                return tf.train.SessionRunArgs(tf.get_collection(tf.GraphKeys.LOSSES)[-1])

            def after_run(self, run_context: Any, run_values: Any) -> None:
                outer.seen.append(float(run_values.results))

        self.hook = Hook()


def _with_ramps(model: Any) -> Any:
    model.set_weights(
        [np.cos(np.arange(w.size) + i + 1.0).reshape(w.shape) * 0.4 for i, w in enumerate(model.get_weights())]
    )
    return model


def _input(tf: Any, features: Any, labels: Any, times: int | None) -> Callable[[], Any]:
    return lambda: tf.data.Dataset.from_tensor_slices((features, labels)).batch(8).repeat(times)


def _found(tf: Any, made: Any, features: Any, labels: Any, steps: int = 6) -> Any:
    """Train, evaluate and predict; what is in the checkpoint, and what training began with."""
    losses = _Losses(tf)
    made.train(_input(tf, features, labels, None), [losses.hook], steps)
    first = os.path.join(made.model_dir, "keras", "keras_model.ckpt")
    names = made.get_variable_names()
    values = {n: np.asarray(made.get_variable_value(n), np.float64).ravel()[:4].tolist() for n in names}
    evaluated = {k: float(v) for k, v in made.evaluate(_input(tf, features, labels, 1)).items()}
    asked = features["features"] if isinstance(features, dict) and "features" in features else features
    predicted = next(iter(made.predict(_input(tf, asked, labels, 1))))
    return {
        "losses": losses.seen, "values": values, "evaluated": evaluated,
        "shapes": {n: list(s) for n, s in tf.train.list_variables(made.model_dir)},
        "began with": sorted(n for n, _ in tf.train.list_variables(first)),
        "predicted": {k: np.asarray(v, np.float64).tolist() for k, v in predicted.items()},
        "again": float(made.train(_input(tf, features, labels, None), steps=2).get_variable_value("global_step")),
    }  # fmt: skip


def _dense(tf: Any, folder: str) -> Any:
    keras = tf.keras
    model = keras.Sequential([keras.layers.Dense(4, activation="tanh", input_shape=(2,)), keras.layers.Dense(1)])
    model.compile("rmsprop", "mse", metrics=["mae", "mse"])
    return model, tf.keras.estimator.model_to_estimator(_with_ramps(model), model_dir=folder)


def evaluated(tf: Any, folder: str) -> Any:
    """Evaluate what `sequential` has left in a folder."""
    tf.keras.backend.clear_session()
    found = _dense(tf, folder)[1].evaluate(_input(tf, X, Y, 1))
    return {key: float(value) for key, value in found.items()}


def sequential(tf: Any, folder: str) -> Any:
    """A Sequential model whose weights are set, with an optimizer and metrics by name; and its SavedModel."""
    model, made = _dense(tf, folder)
    found = _found(tf, made, X, Y)
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn(
        {model.input_names[0]: tf.placeholder_with_default(X[:1], [None, 2])}
    )
    written = made.export_saved_model(os.path.join(folder, "export"), receiver).decode()
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], written)
        signature = meta.signature_def["serving_default"]
        found["signature"] = [sorted(signature.inputs), sorted(signature.outputs)]
        out, fed = next(iter(signature.outputs.values())).name, next(iter(signature.inputs.values())).name
        found["served"] = session.run(out, {fed: X[:3]}).tolist()
    return found


def several(tf: Any, folder: str) -> Any:
    """Inputs and outputs by name, with normalization, dropout that does nothing, and weights of losses."""
    keras = tf.keras
    a, b = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    both = keras.layers.concatenate([keras.layers.Dense(3, name="left")(a), keras.layers.Dense(3, name="right")(b)])
    both = keras.layers.Dropout(0.0)(keras.layers.BatchNormalization(momentum=0.8)(both))
    outputs = [
        keras.layers.Dense(1, name="value")(both),
        keras.layers.Dense(3, activation="softmax", name="kind")(both),
    ]
    model = keras.Model([a, b], outputs)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    if not isinstance(getattr(optimizer, "_hyper", None), dict):
        optimizer = keras.optimizers.legacy.SGD(0.05, momentum=0.9)
    model.compile(
        optimizer, {"value": "mse", "kind": "sparse_categorical_crossentropy"},
        {"value": ["mae"], "kind": ["accuracy"]}, loss_weights={"value": 1.0, "kind": 0.5},
    )  # fmt: skip
    config = tf.estimator.RunConfig(folder, tf_random_seed=3, save_checkpoints_steps=4)
    made = tf.keras.estimator.model_to_estimator(_with_ramps(model), config=config)
    return _found(tf, made, {"b": X[::-1].copy(), "a": X}, {"kind": CLASSES[:, None], "value": Y})


def weighed(tf: Any, folder: str) -> Any:
    """Weights of examples, an optimizer of `tf.train`, other names of metrics, weights that no session has yet."""
    keras = tf.keras
    ramp = keras.initializers.Constant(0.2)
    model = keras.Sequential([keras.layers.Dense(3, activation="softmax", kernel_initializer=ramp, input_shape=(2,))])
    model.compile(tf.train.AdamOptimizer(0.1), "sparse_categorical_crossentropy", metrics=["accuracy"])
    made = tf.keras.estimator.model_to_estimator(
        model, model_dir=folder, metric_names_map={model.metrics_names[1]: "right"}
    )
    weights = np.linspace(0.5, 1.5, 32).astype(np.float32)
    return _found(tf, made, {"features": X, "sample_weights": weights}, CLASSES)


def from_file(tf: Any, folder: str) -> Any:
    """A model that was saved, with an optimizer by name, and features of another type."""
    keras = tf.keras
    x = keras.Input((2,), name="x")
    model = keras.Model(x, keras.layers.Dense(1, name="out", kernel_regularizer=keras.regularizers.l2(0.1))(x))
    model.compile("adam", "mean_absolute_error")
    path = os.path.join(folder, "model.h5")
    _with_ramps(model).save(path)
    made = tf.keras.estimator.model_to_estimator(keras_model_path=path, model_dir=os.path.join(folder, "made"))
    return _found(tf, made, {"x": X.astype(np.float32)}, Y)


def refused(tf: Any, folder: str) -> Any:
    """The kinds of errors."""
    keras = tf.keras
    made = tf.keras.estimator.model_to_estimator
    model = keras.Sequential([keras.layers.Dense(1, input_shape=(2,))])
    found = []
    for call in (
        lambda: made(),
        lambda: made(model, model_dir=folder),
        lambda: made(model, "path", model_dir=folder),
    ):
        try:
            call()
            found.append("made")
        except Exception as e:
            found.append(type(e).__name__)
    return {"found": found}


PROGRAMS = {f.__name__: f for f in (sequential, several, weighed, from_file, refused)}


def run(tf: Any, name: str, folder: str) -> Any:
    """Run one in a new default graph."""
    tf.keras.backend.clear_session()
    tf.set_random_seed(1)
    return PROGRAMS[name](tf, folder)


def main(folder: str) -> None:
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    found = {}
    for name in PROGRAMS:
        os.makedirs(own := os.path.join(folder, "theirs", name))
        found[name] = run(tf, name, own)
    found["evaluated theirs"] = evaluated(tf, os.path.join(folder, "theirs", "sequential"))
    if os.path.isdir(ours := os.path.join(folder, "ours")):
        found["evaluated"] = evaluated(tf, ours)
    with open(os.path.join(folder, "found.json"), "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
