"""Programs with tf.keras that give arguments that few give: groups of convolutions, classes without loss, axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.keras.more_programs import _came_to, _data


def convolutions(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Conv2D(6, 3, 1, "same", "channels_last", (1, 1), 2, "relu", input_shape=(6, 6, 4)),
            layers.Conv2D(4, 2, dilation_rate=2, groups=2, use_bias=False),
            layers.Conv2DTranspose(4, 3, 2, "same", 1, "channels_last", (1, 1), "tanh"),
            layers.Conv2DTranspose(3, 3, 3, output_padding=(2, 0)),
            layers.Conv2DTranspose(3, 2, dilation_rate=2),
            layers.DepthwiseConv2D(2, (1, 1), "valid", 2, "channels_last", (2, 2), "relu"),
            layers.SeparableConv2D(
                *(3, 2),
                depthwise_constraint=tf.keras.constraints.MaxNorm(0.1),
                pointwise_constraint="non_neg",
                bias_regularizer="l2",
            ),
            layers.Reshape((-1, 15)),
            layers.Conv1D(6, 3, 2, "causal", "channels_last", 1, 3, "relu"),
            layers.Reshape((-1, 3, 2, 2)),
            layers.Conv3D(4, 2, 1, "same", groups=2),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )
    model.compile("sgd", "mse")
    x = _data(6, 6, 6, 4)
    out = _came_to(tf, model, model.fit(x, _data(6, 2), batch_size=3, epochs=2, verbose=0, shuffle=False))
    copied = tf.keras.models.model_from_json(model.to_json())
    copied.set_weights(model.get_weights())
    shapes = [[*layer.output_shape] for layer in model.layers]
    keys = [sorted(layer.get_config()) for layer in model.layers[:7]]
    return {**out, "predicted": copied.predict(x[:2]).tolist(), "shapes": shapes, "keys": keys}


def ignored(tf: Any, folder: str) -> Any:
    """A class of segments that has no loss."""
    losses, metrics, backend = tf.keras.losses, tf.keras.metrics, tf.keras.backend
    truth = np.array([[0, 2, -1], [1, -1, -1]], np.int32)
    guess = _data(2, 3, 3)
    guess /= guess.sum(-1, keepdims=True)
    loss = losses.SparseCategoricalCrossentropy(ignore_class=-1)
    logits = losses.SparseCategoricalCrossentropy(True, 2, "sum", "logits")
    weights = np.array([[1, 2, 3], [0.5, 1, 1]], np.float32)
    values = [
        loss(truth, guess),
        loss(truth, guess, sample_weight=weights),
        loss(truth, guess, sample_weight=np.array([1.0, 3.0], np.float32)),
        logits(np.abs(truth), guess),
        losses.sparse_categorical_crossentropy(truth, guess, ignore_class=-1),
        losses.sparse_categorical_crossentropy(truth[:, :1], guess[:, 0], ignore_class=-1),
        losses.sparse_categorical_crossentropy(np.abs(truth), guess.transpose(0, 2, 1), axis=1),
    ]
    out = [np.asarray(backend.eval(value)).tolist() for value in values]
    metric = metrics.SparseCategoricalCrossentropy(ignore_class=-1)
    updates = [metric.update_state(truth, guess), metric.update_state(truth[::-1], guess, weights)]
    backend.get_session().run([v.initializer for v in metric.weights])
    for update in updates:
        backend.get_session().run(update)
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, activation="softmax", input_shape=(3, 4))])
    model.compile("sgd", losses.SparseCategoricalCrossentropy(ignore_class=-1))
    x = _data(2, 3, 4)
    history = model.fit(x, truth[:, :, None], epochs=3, verbose=0, shuffle=False)
    config = {k: v for k, v in loss.get_config().items() if k != "fn"}
    return {
        **_came_to(tf, model, history),
        "losses": out,
        "metric": float(backend.eval(metric.result())),
        "config": config,
    }


def axes(tf: Any, folder: str) -> Any:
    """Losses and metrics whose arguments are given by place."""
    losses, metrics, backend = tf.keras.losses, tf.keras.metrics, tf.keras.backend
    y, x = _data(3, 4), _data(3, 4, seed=6)
    truth = np.eye(4, dtype=np.float32)[[2, 0, 3]]
    values = [
        losses.CategoricalCrossentropy(False, 0.1, 0)(y, x),
        losses.BinaryCrossentropy(True, 0.2, 0, "none")(y, x),
        losses.BinaryCrossentropy(axis=0, reduction="none")(truth, x),
        losses.categorical_crossentropy(y, x, False, 0.0, 0),
        losses.binary_crossentropy(truth, x, False, 0.0, 0),
        losses.CosineSimilarity(0, "none")(y, x),
        losses.Huber(0.2, "sum")(y, x),
    ]
    kinds = [
        metrics.TopKCategoricalAccuracy(2),
        metrics.SparseTopKCategoricalAccuracy(2, "top"),
        metrics.BinaryAccuracy("near", None, 0.7),
        metrics.CategoricalCrossentropy(label_smoothing=0.2, axis=-1),
        metrics.CategoricalHinge(),
        metrics.CosineSimilarity(axis=0),
        metrics.LogCoshError(),
    ]
    found = []
    for kind in kinds:
        labels = np.array([2.0, 0.0, 3.0], np.float32) if "Sparse" in type(kind).__name__ else truth
        update = kind.update_state(labels, x)
        backend.get_session().run([v.initializer for v in kind.weights])
        backend.get_session().run(update)
        found.append([kind.name, float(backend.eval(kind.result()))])
    names = [losses.LogCosh().name, losses.KLDivergence().name, losses.Huber().name]
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(4,))])
    model.compile("sgd", "mse", metrics=["cosine_similarity", "cosine_proximity"])
    similar = [float(v) for v in model.evaluate(x, y, verbose=0)]
    return {
        "losses": [np.asarray(backend.eval(value)).tolist() for value in values],
        "metrics": found,
        "names": names,
        "similar": similar,
        "reported": model.metrics_names,
    }


def batches(tf: Any, folder: str) -> Any:
    """Steps of one batch, metrics that go on, generators, what callbacks of `predict` and `evaluate` see."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    model.compile("sgd", "mse", metrics=["mae"])
    x, y = _data(6, 3), _data(6, 2)
    out: dict[str, Any] = {"trained": [], "tested": []}
    for at in (0, 2, 4):
        part = slice(at, at + 2)
        out["trained"].append([float(v) for v in model.train_on_batch(x[part], y[part], reset_metrics=False)])
    model.reset_metrics()
    for at in (0, 2, 4):
        part = slice(at, at + 2)
        out["tested"].append([float(v) for v in model.test_on_batch(x[part], y[part], None, at == 4)])
    seen: list[str] = []

    class Watch(tf.keras.callbacks.Callback):  # type: ignore[misc]
        def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(f"predicted {batch}")

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(f"tested {batch}")

        def on_predict_end(self, logs: Any = None) -> None:
            seen.append("end")

    def pairs() -> Any:
        while True:
            for at in (0, 3):
                yield x[at : at + 3], y[at : at + 3]

    model.predict(x, 2, 0, None, [Watch()], max_queue_size=4, workers=1, use_multiprocessing=False)
    evaluated = model.evaluate(x, y, 3, 0, None, None, [Watch()], 10, 1, False)
    generated = model.evaluate_generator(pairs(), 2, [Watch()], 10, 1, False, 0)
    predicted = model.predict_generator((batch for batch, _ in pairs()), 2, callbacks=[Watch()])
    history = model.fit_generator(pairs(), 2, 3, 0, [Watch()], (x, y), None, [2], max_queue_size=2, shuffle=False)
    return {
        **out,
        "seen": seen,
        "evaluated": [float(v) for v in evaluated],
        "generated": [float(v) for v in generated],
        "predicted": predicted.tolist(),
        "history": {k: [float(v) for v in vs] for k, vs in history.history.items()},
    }


def parts(tf: Any, folder: str) -> Any:
    """Regularizers and constraints of small layers, metrics of one class or of the largest, a late early stop."""
    layers, metrics, backend = tf.keras.layers, tf.keras.metrics, tf.keras.backend
    model = tf.keras.Sequential(
        [
            layers.Dense(4, input_shape=(3,)),
            layers.PReLU("ones", "l2", tf.keras.constraints.MaxNorm(0.9)),
            layers.LayerNormalization(
                beta_regularizer="l2", gamma_regularizer="l1", beta_constraint="non_neg", gamma_constraint="unit_norm"
            ),
            layers.Dense(2),
        ]
    )
    model.compile("sgd", "mse")
    stop = tf.keras.callbacks.EarlyStopping("loss", 10.0, 1, start_from_epoch=2)
    history = model.fit(_data(6, 3), _data(6, 2), epochs=9, verbose=0, shuffle=False, callbacks=[stop])
    keys = [sorted(layer.get_config()) for layer in model.layers]
    truth, guess = np.eye(4)[[2, 0, 3, 0]].astype("float32"), _data(4, 4, seed=6)
    weights = np.array([1, 2, 0.5, 3], np.float32)
    kinds = [
        metrics.Precision(None, 2),
        metrics.Recall(top_k=1),
        metrics.Precision([0.2, 0.6], None, 0),
        metrics.Recall(0.3, class_id=2),
        metrics.Precision(0.5, 2, 0, "named"),
        metrics.TruePositives([0.1, 0.5, 0.9]),
        metrics.FalseNegatives(0.4),
    ]
    found = []
    for kind in kinds:
        updates = [kind.update_state(truth, guess), kind.update_state(truth[::-1], guess, weights)]
        backend.get_session().run([v.initializer for v in kind.weights])
        for update in updates:
            backend.get_session().run(update)
        config = {k: v for k, v in kind.get_config().items() if k in ("thresholds", "top_k", "class_id")}
        found.append([kind.name, np.asarray(backend.eval(kind.result())).tolist(), config])
    return {**_came_to(tf, model, history), "epochs": history.epoch, "keys": keys, "metrics": found}


def validation(tf: Any, folder: str) -> Any:
    """What callbacks see of validation in `fit`, and its batches where those of training are a generator's."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    model.compile("sgd", "mse", metrics=["mae"])
    x, y = _data(7, 3), _data(7, 2)
    seen: list[Any] = []

    class Watch(tf.keras.callbacks.Callback):  # type: ignore[misc]
        pass

    def watch(name: str) -> None:
        def called(self: Any, *args: Any, logs: Any = None) -> None:
            seen.append([name, *(arg if isinstance(arg, int) else sorted(arg or {}) for arg in args)])

        setattr(Watch, name, called)

    for mode in ("train", "test", "predict"):
        for what in ("begin", "end", "batch_begin", "batch_end"):
            watch(f"on_{mode}_{what}")
    watch("on_epoch_begin")
    watch("on_epoch_end")

    def pairs() -> Any:
        while True:
            yield x[:3], y[:3]
            yield x[3:5], y[3:5]

    found = [model.fit(x, y, 4, 2, 0, [Watch()], 0.0, (x[1:], y[1:]), False)]
    found.append(model.fit_generator(pairs(), 2, 2, 0, [Watch()], (x, y)))
    drawn = np.random.rand(2).tolist()
    found.append(
        model.fit(pairs(), epochs=1, verbose=0, validation_data=pairs(), steps_per_epoch=3, validation_steps=1)
    )
    model = tf.keras.Sequential([tf.keras.layers.Dense(2, input_shape=(3,))])
    model.compile("sgd", "mse")
    found.append(model.fit(x, y, 4, 2, 0, [Watch()], 0.3, None, True, {0: 2.0, 1: 1.0}, validation_freq=2))
    model.evaluate(x, y, 4, 0, callbacks=[Watch()])
    model.predict(x, 4, callbacks=[Watch()])
    return {
        "seen": seen,
        "drawn": drawn,
        "histories": [{k: [float(v) for v in vs] for k, vs in each.history.items()} for each in found],
    }


PROGRAMS = {
    "parts": parts,
    "convolutions": convolutions,
    "ignored": ignored,
    "axes": axes,
    "batches": batches,
    "validation": validation,
}
