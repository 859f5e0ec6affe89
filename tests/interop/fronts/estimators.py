"""Estimators: each program takes `tf` and a folder, trains there, and gives what it found.

As a program, for TensorFlow 1.15: `python -m tests.interop.fronts.estimators FOLDER`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

X = np.linspace(-1.0, 1.0, 40).reshape(20, 2).astype(np.float32)
Y = (X[:, :1] * 2.0 - X[:, 1:] * X[:, 1:]).astype(np.float32)


def _ramp(tf: Any) -> Any:
    def make(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        wanted = [int(n) for n in shape]
        return tf.constant(np.cos(np.arange(int(np.prod(wanted))) + 1.0).reshape(wanted) * 0.3, tf.float32)

    return make


def _model(tf: Any, features: Any, labels: Any, mode: Any, params: Any) -> Any:
    keys, spec = tf.estimator.ModeKeys, tf.estimator.EstimatorSpec
    hidden = tf.layers.dense(features["x"], params["units"], tf.nn.relu, kernel_initializer=_ramp(tf), name="hidden")
    output = tf.layers.dense(hidden, 1, kernel_initializer=_ramp(tf), name="output")
    if mode == keys.PREDICT:
        return spec(mode, {"y": output, "positive": tf.greater(output, 0.0)})
    loss = tf.losses.mean_squared_error(labels, output)
    metrics = {"error": tf.metrics.mean_absolute_error(labels, output)}
    optimizer = tf.train.AdamOptimizer(params["rate"])
    train = optimizer.minimize(loss, tf.train.get_global_step()) if mode == keys.TRAIN else None
    return spec(mode, loss=loss, train_op=train, eval_metric_ops=metrics)


def _own(tf: Any, folder: str) -> Any:
    config = tf.estimator.RunConfig(
        folder, tf_random_seed=1, save_checkpoints_steps=5, save_summary_steps=4, keep_checkpoint_max=2
    )
    return tf.estimator.Estimator(
        lambda features, labels, mode, params: _model(tf, features, labels, mode, params),
        config=config,
        params={"units": 3, "rate": 0.05},
    )


def again(tf: Any, folder: str) -> Any:
    """Train three more steps what `own_model` has left in a folder, and evaluate it."""
    made = _own(tf, folder)
    made.train(tf.estimator.inputs.numpy_input_fn({"x": X}, Y, 8, None, shuffle=False), steps=3)
    return _plain(made.evaluate(tf.estimator.inputs.numpy_input_fn({"x": X}, Y, 8, shuffle=False)))


def own_model(tf: Any, folder: str) -> Any:
    """A model function, numpy inputs, hooks, summaries, predictions, a SavedModel."""
    seen = []

    class Watch(tf.train.SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            return tf.train.SessionRunArgs(tf.train.get_global_step())

        def after_run(self, run_context: Any, run_values: Any) -> None:
            seen.append(int(run_values.results))

    made = _own(tf, folder)
    train = tf.estimator.inputs.numpy_input_fn({"x": X}, Y, batch_size=8, num_epochs=None, shuffle=False)
    test = tf.estimator.inputs.numpy_input_fn({"x": X}, Y, batch_size=8, num_epochs=1, shuffle=False)
    made.train(train, steps=12, hooks=[Watch()])
    first = made.evaluate(test)
    made.train(train, max_steps=15)
    second = made.evaluate(test, steps=2, name="short")
    asked = tf.estimator.inputs.numpy_input_fn({"x": X[:3]}, shuffle=False)
    predictions = [{k: v.tolist() for k, v in p.items()} for p in made.predict(asked)]
    with tf.Graph().as_default():
        receiver = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.constant(X)})
    exported = made.export_saved_model(os.path.join(folder, "models"), receiver)
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], exported.decode())
        signature = meta.signature_def["serving_default"]
        served = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: X[:3]}).tolist()
    return {
        "first": first,
        "second": second,
        "predictions": predictions,
        "served": served,
        "names": made.get_variable_names(),
        "kernel": made.get_variable_value("hidden/kernel"),
        "seen": len(seen),
        "checkpoints": sorted(n for n in os.listdir(folder) if n.endswith(".index")),
        "summaries": _summaries(tf, folder),
        "evaluations": [_summaries(tf, made.eval_dir()), _summaries(tf, made.eval_dir("short"))],
    }


def trained_and_evaluated(tf: Any, folder: str) -> Any:
    """Datasets, train_and_evaluate with exporters, a warm start from what it made."""

    def data(repeat: Any) -> Any:
        whole = tf.data.Dataset.from_tensor_slices(({"x": X}, Y))
        return whole.repeat(repeat).batch(5)

    def receiver() -> Any:
        examples = tf.placeholder(tf.string, [None], name="examples")
        parsed = tf.parse_example(examples, {"x": tf.FixedLenFeature([2], tf.float32)})
        return tf.estimator.export.ServingInputReceiver(parsed, {"examples": examples})

    def make(path: str, **options: Any) -> Any:
        return tf.estimator.Estimator(
            lambda features, labels, mode, params: _model(tf, features, labels, mode, params),
            config=tf.estimator.RunConfig(path, tf_random_seed=1, save_checkpoints_steps=4),
            params={"units": 4, "rate": 0.1},
            **options,
        )

    made = make(os.path.join(folder, "a"))
    exporters = [tf.estimator.LatestExporter("latest", receiver), tf.estimator.FinalExporter("final", receiver)]
    metrics, exported = tf.estimator.train_and_evaluate(
        made,
        tf.estimator.TrainSpec(lambda: data(None), max_steps=10),
        tf.estimator.EvalSpec(lambda: data(1), steps=None, exporters=exporters, throttle_secs=0),
    )
    warm = make(os.path.join(folder, "b"), warm_start_from=made.model_dir)
    warm.train(lambda: data(1), steps=1)
    return {
        "metrics": metrics,
        "exported": [path is not None for path in exported],
        "latest": len(os.listdir(os.path.join(made.model_dir, "export", "latest"))),
        "final": len(os.listdir(os.path.join(made.model_dir, "export", "final"))),
        "warm": warm.evaluate(lambda: data(1)),
    }


def _people(tf: Any) -> Any:
    """Features and columns, wide and deep; initial values come from constants."""
    fc = tf.feature_column
    raw = {
        "age": np.array([23.0, 41.0, 65.0, 17.0, 33.0, 50.0], np.float32),
        "job": np.array(["nurse", "cook", "cook", "pilot", "nurse", "clerk"]),
        "weight": np.array([1.0, 2.0, 0.5, 1.0, 1.0, 3.0], np.float32),
    }
    age, job = (
        fc.numeric_column("age", normalizer_fn=lambda x: x / 50.0),
        fc.categorical_column_with_hash_bucket("job", 8),
    )
    ages = fc.bucketized_column(fc.numeric_column("age"), [20.0, 40.0])
    wide = [job, ages, fc.crossed_column([ages, "job"], 10)]
    deep = [age, fc.indicator_column(job), fc.embedding_column(job, 2, initializer=_ramp(tf))]
    return raw, wide, deep


def _canned(tf: Any, folder: str, make: Any, labels: Any, **more: Any) -> Any:
    """Train six steps from a checkpoint of known values, evaluate, predict, and serve."""
    raw, _, _ = _people(tf)
    fed = tf.estimator.inputs.numpy_input_fn(raw, labels, 6, None, shuffle=False)
    once = tf.estimator.inputs.numpy_input_fn(raw, labels, 4, 1, shuffle=False)
    first = make(os.path.join(folder, "first"), None)
    first.train(fed, steps=1)
    known = os.path.join(folder, "known")
    with tf.Graph().as_default(), tf.Session() as session:
        for name in first.get_variable_names():
            old = first.get_variable_value(name)
            ramp = np.sin(np.arange(old.size) + 1.0).reshape(old.shape).astype(old.dtype) * 0.2
            tf.get_variable(name, initializer=np.asarray(old if name == "global_step" else ramp))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, known)
    made = make(os.path.join(folder, "second"), known)
    made.train(fed, steps=6)
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(more.pop("spec"))
    path = made.export_saved_model(os.path.join(folder, "models"), receiver).decode()
    with tf.Graph().as_default(), tf.Session() as session:
        signatures = tf.saved_model.loader.load(session, ["serve"], path).signature_def
    predicted = list(made.predict(tf.estimator.inputs.numpy_input_fn(raw, batch_size=4, shuffle=False)))
    return {
        "names": sorted(made.get_variable_names()),
        "values": {n: made.get_variable_value(n) for n in made.get_variable_names()},
        "metrics": made.evaluate(once),
        "predicted": [dict(sorted(p.items())) for p in predicted],
        "signatures": {k: [sorted(s.inputs), sorted(s.outputs), s.method_name] for k, s in sorted(signatures.items())},
        "tags": sorted({tag for _, tag, _ in _summaries(tf, made.model_dir)}),
    }


def wide_and_deep(tf: Any, folder: str) -> Any:
    _, wide, deep = _people(tf)

    def make(path: str, warm: Any) -> Any:
        return tf.estimator.DNNLinearCombinedClassifier(
            path,
            linear_feature_columns=wide,
            dnn_feature_columns=deep,
            dnn_hidden_units=[4, 3],
            warm_start_from=warm,
            weight_column="weight",
            config=tf.estimator.RunConfig(tf_random_seed=1),
        )

    spec = tf.feature_column.make_parse_example_spec([*wide, *deep, tf.feature_column.numeric_column("weight")])
    return _canned(tf, folder, make, np.array([0, 1, 1, 0, 1, 0]), spec=spec)


def deep_classifier(tf: Any, folder: str) -> Any:
    _, _, deep = _people(tf)

    def make(path: str, warm: Any) -> Any:
        return tf.estimator.DNNClassifier(
            [4],
            deep,
            path,
            n_classes=3,
            label_vocabulary=["a", "b", "c"],
            optimizer=tf.train.GradientDescentOptimizer(0.1),
            activation_fn=tf.nn.tanh,
            batch_norm=True,
            warm_start_from=warm,
            config=tf.estimator.RunConfig(tf_random_seed=1),
        )

    labels = np.array(["a", "b", "c", "a", "b", "c"])
    return _canned(tf, folder, make, labels, spec=tf.feature_column.make_parse_example_spec(deep))


def linear_regression(tf: Any, folder: str) -> Any:
    _, wide, _ = _people(tf)

    def make(path: str, warm: Any) -> Any:
        config = tf.estimator.RunConfig(tf_random_seed=1)
        return tf.estimator.LinearRegressor(wide, path, 2, warm_start_from=warm, config=config)

    labels = np.linspace(-1.0, 1.0, 12).reshape(6, 2).astype(np.float32)
    return _canned(tf, folder, make, labels, spec=tf.feature_column.make_parse_example_spec(wide))


def _summaries(tf: Any, folder: str) -> Any:
    """Tags and numbers of a folder's event files, by step; rates are the machine's."""
    found = []
    for name in sorted(os.listdir(folder)):
        if "tfevents" in name:
            for event in tf.train.summary_iterator(os.path.join(folder, name)):
                for value in event.summary.value:
                    if "global_step/sec" not in value.tag and "fraction_over" not in value.tag:
                        shown = value.simple_value if value.WhichOneof("value") == "simple_value" else None
                        found.append([int(event.step), value.tag, shown])
    return found


PROGRAMS: dict[str, Callable[[Any, str], Any]] = {
    "own_model": own_model,
    "trained_and_evaluated": trained_and_evaluated,
    "wide_and_deep": wide_and_deep,
    "deep_classifier": deep_classifier,
    "linear_regression": linear_regression,
}


def run(tf: Any, name: str, folder: str) -> Any:
    """Run one program; gives what it found as JSON's values."""
    return _plain(PROGRAMS[name](tf, folder))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    return value


def main(folder: str) -> None:
    """Run all with TensorFlow, then go on with what was trained here and left in FOLDER/ours."""
    import tensorflow as tf

    found = {name: run(tf, name, os.path.join(folder, "theirs", name)) for name in PROGRAMS}
    found["again"] = again(tf, os.path.join(folder, "ours"))
    with open(os.path.join(folder, "found.json"), "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
