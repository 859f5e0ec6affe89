"""Programs whose models report metrics that few ask for, and whose poolings and regularizers have options."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.keras.example_programs import _given, _history
from tests.interop.keras.more_programs import _data


def _seen(tf: Any, kinds: list[Any], batches: list[tuple[Any, ...]]) -> list[Any]:
    """What each comes to after some batches, and is described by."""
    session, found = tf.keras.backend.get_session(), []
    for kind in kinds:
        updates = [kind.update_state(*batch) for batch in batches]
        session.run([v.initializer for v in kind.weights])
        for update in updates:
            session.run(update)
        value = np.asarray(session.run(kind.result())).tolist()
        shapes = [[v.name.rsplit("/", 1)[-1], v.shape.as_list()] for v in kind.weights]
        config = {k: v for k, v in kind.get_config().items() if not callable(v)}
        found.append([kind.name, value, shapes, json_of(config)])
    return found


def json_of(config: Any) -> Any:
    """What a description says, with arrays as lists."""
    return {k: np.asarray(v).tolist() if isinstance(v, np.ndarray) else v for k, v in sorted(config.items())}


def points(tf: Any, folder: str) -> Any:
    metrics = tf.keras.metrics
    truth, other = ((_data(9, 3, seed=n) > 0.5).astype("float32") for n in (2, 3))
    guess, later = _data(9, 3, seed=6), _data(9, 3, seed=8)
    weights = _data(9, 1, seed=7)
    kinds = [
        metrics.SensitivityAtSpecificity(0.5),
        metrics.SensitivityAtSpecificity(0.8, 7, 1, "one"),
        metrics.SpecificityAtSensitivity(0.4),
        metrics.SpecificityAtSensitivity(0.9, num_thresholds=1),
        metrics.PrecisionAtRecall(0.6),
        metrics.PrecisionAtRecall(0.3, num_thresholds=5, class_id=2),
        metrics.RecallAtPrecision(0.5),
        metrics.RecallAtPrecision(0.999, 20),
        metrics.RecallAtPrecision(0.55, class_id=0),
    ]
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, activation="sigmoid", input_shape=(4,))])
    model.compile("sgd", "binary_crossentropy", [metrics.PrecisionAtRecall(0.5), metrics.SensitivityAtSpecificity(0.2)])
    _given(model)
    history = model.fit(_data(9, 4), truth, 4, 2, 0, shuffle=False, validation_data=(_data(9, 4), other))
    return {"found": _seen(tf, kinds, [(truth, guess), (other, later, weights)]), "history": _history(history)}


def overlaps(tf: Any, folder: str) -> Any:
    metrics = tf.keras.metrics
    random = np.random.RandomState(3)
    truth, guess = random.randint(0, 4, (5, 6)), random.randint(0, 4, (5, 6))
    weights = _data(5, 6, seed=7)
    plain = [
        metrics.MeanIoU(4),
        metrics.MeanIoU(num_classes=5, name="five", ignore_class=2),
        metrics.IoU(4, [1]),
        metrics.IoU(4, target_class_ids=[0, 3], ignore_class=1),
        metrics.IoU(6, (0, 5)),
    ]
    hot, spread = np.eye(4, dtype=np.float32)[truth], _data(5, 6, 4, seed=8)
    hots = [
        metrics.OneHotIoU(4, [0, 2]),
        metrics.OneHotIoU(4, [2], ignore_class=0, name="some"),
        metrics.OneHotMeanIoU(4),
        metrics.IoU(4, [1, 2], sparse_y_true=False, sparse_y_pred=False),
        metrics.MeanIoU(4, sparse_y_true=False, sparse_y_pred=False, axis=-1),
    ]
    mixed = [metrics.OneHotMeanIoU(4, sparse_y_pred=True), metrics.OneHotIoU(4, [3], sparse_y_pred=True)]
    sides = [metrics.BinaryIoU(), metrics.BinaryIoU([1], 0.3), metrics.BinaryIoU(target_class_ids=[0], threshold=0.7)]
    half = (truth > 1).astype("float32")
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="softmax", input_shape=(6, 3))])
    model.compile("sgd", "categorical_crossentropy", [metrics.OneHotMeanIoU(4), metrics.BinaryIoU([1], 0.25)])
    _given(model)
    history = model.fit(_data(5, 6, 3), hot, 2, 2, 0, shuffle=False)
    return {
        "plain": _seen(tf, plain, [(truth, guess), (guess[::-1], truth, weights)]),
        "hot": _seen(tf, hots, [(hot, spread), (hot[::-1], spread, weights)]),
        "mixed": _seen(tf, mixed, [(hot, guess)]),
        "sides": _seen(tf, sides, [(half, spread[..., 0]), (half, spread[..., 1], weights)]),
        "history": _history(history),
    }


def means(tf: Any, folder: str) -> Any:
    metrics, backend = tf.keras.metrics, tf.keras.backend
    y, x = _data(4, 3), _data(4, 3, seed=6)
    weights = np.array([1, 2, 0.5, 0], np.float32)
    tensors = [metrics.MeanTensor(), metrics.MeanTensor("kept", shape=(4, 3))]
    found = {
        "tensors": _seen(tf, tensors, [(y,), (x, weights[:, None]), (y, np.broadcast_to(weights[:, None], (4, 3)))])
    }
    relative = [
        metrics.MeanRelativeError(normalizer=[1.0, 0.0, 2.0]),
        metrics.MeanRelativeError([[2.0, 1.0, 3.0]] * 4, "r"),
    ]
    found["relative"] = _seen(tf, relative, [(y, x), (x, y, weights)])
    sums = [metrics.Sum(), metrics.Mean("m"), metrics.RootMeanSquaredError()]
    found["sums"] = _seen(tf, sums[:2], [(y,), (x, weights)]) + _seen(tf, sums[2:], [(y, x), (x, y, weights)])
    own = [metrics.MeanMetricWrapper(lambda a, b: backend.abs(a - b), name="own")]
    found["own"] = [each[:3] for each in _seen(tf, own, [(y, x, weights)])]
    return found


def by_name(tf: Any, folder: str) -> Any:
    """Losses and metrics that `compile` is given by name."""
    out = {}
    kinds = {
        "sigmoid": [
            *(
                "binary_crossentropy",
                "mse",
                "MSE",
                "mae",
                "MAE",
                "mape",
                "MAPE",
                "msle",
                "MSLE",
                "hinge",
                "squared_hinge",
            ),
            *("poisson", "cosine_similarity", "binary_accuracy"),
            *("categorical_hinge", "acc", "mean_squared_error", "mean_absolute_error", "huber"),
            *("mean_absolute_percentage_error", "mean_squared_logarithmic_error", "bce", "BCE"),
            *(
                "AUC",
                "Precision",
                "Recall",
                "TruePositives",
                "MeanSquaredError",
                "RootMeanSquaredError",
                "CosineSimilarity",
            ),
        ],
        "softmax": [
            *("categorical_crossentropy", "categorical_accuracy", "top_k_categorical_accuracy", "crossentropy", "ce"),
            *("accuracy", "CategoricalAccuracy", "TopKCategoricalAccuracy", "KLDivergence", "Poisson", "LogCoshError"),
        ],
    }
    for last, names in kinds.items():
        truth = np.eye(6, dtype=np.float32)[np.arange(7) % 6]
        for name in names:
            for what in ("metric",) if name[0].isupper() and not name.isupper() else ("metric", "loss"):
                tf.keras.backend.clear_session()
                model = tf.keras.Sequential([tf.keras.layers.Dense(6, activation=last, input_shape=(4,))])
                try:
                    if what == "metric":
                        model.compile("sgd", "mse", [name])
                    else:
                        model.compile("sgd", name)
                    _given(model)
                    model.train_on_batch(_data(7, 4), truth)
                    found = np.ravel(model.evaluate(_data(7, 4), truth, verbose=0)).tolist()
                    out[f"{last} {what} {name}"] = [model.metrics_names, found]
                except (ValueError, TypeError, AttributeError) as e:
                    out[f"{last} {what} {name}"] = type(e).__name__
    truth = np.arange(7) % 6
    for name in (
        "sparse_categorical_crossentropy",
        "sparse_categorical_accuracy",
        "acc",
        "ce",
        "sparse_top_k_categorical_accuracy",
    ):
        tf.keras.backend.clear_session()
        model = tf.keras.Sequential([tf.keras.layers.Dense(6, activation="softmax", input_shape=(4,))])
        model.compile("sgd", "sparse_categorical_crossentropy", [name])
        _given(model)
        out[f"sparse {name}"] = [model.metrics_names, [float(v) for v in model.train_on_batch(_data(7, 4), truth)]]
    return out


def pooled(tf: Any, folder: str) -> Any:
    """Global poolings that keep the axes, and what regularizers charge."""
    layers, regularizers, backend = tf.keras.layers, tf.keras.regularizers, tf.keras.backend
    out: dict[str, Any] = {}
    for rank in (1, 2, 3):
        x = _data(2, *[3, 4, 2][:rank], 3)
        for kind in ("GlobalAveragePooling", "GlobalMaxPooling"):
            for keep in (False, True):
                for place in ("channels_last", "channels_first"):
                    layer = getattr(layers, f"{kind}{rank}D")(place, keepdims=keep)
                    found = layer(tf.constant(x))
                    out[f"{kind}{rank} {keep} {place}"] = [found.shape.as_list(), backend.get_value(found).tolist()]
                    shape = layer.compute_output_shape(x.shape)
                    out[f"{kind}{rank} {keep} {place} said"] = [
                        *tf.TensorShape(shape).as_list(),
                        layer.get_config()["keepdims"],
                    ]
    masked = layers.GlobalAveragePooling1D(keepdims=True)
    inputs = layers.Input((4, 2))
    model = tf.keras.Model(inputs, masked(layers.Masking(0.0)(inputs)))
    data = _data(3, 4, 2)
    data[0, 2:] = data[1, :1] = 0
    out["masked"] = model.predict(data).tolist()
    kinds = [
        *(regularizers.l1(0.1), regularizers.l2(0.2), regularizers.l1_l2(), regularizers.l1_l2(0.3, 0.1)),
        *(
            regularizers.L1(0.1),
            regularizers.L2(l2=0.2),
            regularizers.L1L2(0.1, 0.2),
            regularizers.L1(),
            regularizers.L2(),
        ),
        *(regularizers.get(name) for name in ("l1", "l2", "l1_l2", "L1L2")),
        regularizers.get({"class_name": "L1L2", "config": {"l1": 0.5, "l2": 0.25}}),
    ]
    charged = [float(backend.get_value(kind(tf.constant(_data(3, 2) - 0.5)))) for kind in kinds]
    configs = [{k: round(float(v), 6) for k, v in kind.get_config().items()} for kind in kinds]
    out["regularizers"] = [charged, configs, [type(kind).__name__ for kind in kinds]]
    model = tf.keras.Sequential(
        [
            layers.Conv1D(3, 2, kernel_regularizer=regularizers.L1(0.1), bias_regularizer="l2", input_shape=(5, 2)),
            layers.GlobalMaxPooling1D(keepdims=True),
            layers.Dense(2, activity_regularizer=regularizers.L1L2(0.1, 0.3)),
            layers.ActivityRegularization(0.05, 0.1),
            layers.Flatten(),
        ]
    )
    model.compile("sgd", "mse")
    _given(model)
    out["history"] = _history(model.fit(_data(6, 5, 2), _data(6, 2), 3, 2, 0, shuffle=False))
    out["losses"] = len(model.losses)
    return out


def weighed(tf: Any, folder: str) -> Any:
    """Metrics with weights of examples and without, of outputs that have targets of several kinds."""
    layers = tf.keras.layers
    inputs = layers.Input((4,))
    first = layers.Dense(3, activation="softmax", name="kinds")(inputs)
    second = layers.Dense(2, name="sizes")(inputs)
    model = tf.keras.Model(inputs, [first, second])
    model.compile(
        "sgd",
        ["sparse_categorical_crossentropy", tf.keras.losses.MeanAbsoluteError()],
        metrics=[["acc", "ce"], ["mse"]],
        weighted_metrics={"kinds": ["accuracy"], "sizes": ["mae", tf.keras.metrics.RootMeanSquaredError("rms")]},
        loss_weights={"kinds": 0.3, "sizes": 2.0},
    )
    _given(model)
    x, y = _data(9, 4), [np.arange(9) % 3, _data(9, 2)]
    weights = {"kinds": _data(9), "sizes": np.arange(9) / 3.0}
    history = model.fit(
        x, y, 4, 2, 0, shuffle=False, sample_weight=weights, validation_data=(x, y, [_data(9), _data(9)])
    )
    tested = [float(v) for v in model.test_on_batch(x, y, weights)]
    trained = [float(v) for v in model.train_on_batch(x, y, weights, class_weight={"kinds": {0: 1.0, 1: 2.0, 2: 0.1}})]
    single = tf.keras.Sequential([layers.Dense(1, activation="sigmoid", input_shape=(4,))])
    single.compile(
        "adam",
        "binary_crossentropy",
        metrics=["acc"],
        weighted_metrics=["acc", "mse", tf.keras.metrics.AUC(20, name="area")],
    )
    _given(single)
    labels = (np.arange(9) % 2).astype("float32")
    more = single.fit(
        x, labels, 5, 2, 0, shuffle=False, class_weight={0: 0.5, 1: 3.0}, sample_weight=_data(9), validation_split=0.3
    )
    steps = tf.keras.Sequential([layers.LSTM(3, return_sequences=True, input_shape=(3, 2)), layers.Dense(1)])
    steps.compile("sgd", "mse", sample_weight_mode="temporal", weighted_metrics=["mae"])
    _given(steps)
    temporal = steps.fit(_data(5, 3, 2), _data(5, 3, 1), 5, 2, 0, sample_weight=_data(5, 3, seed=9))
    return {
        "history": _history(history),
        "names": model.metrics_names,
        "tested": tested,
        "trained": trained,
        "more": _history(more),
        "temporal": _history(temporal),
    }


PROGRAMS = {f.__name__: f for f in (points, overlaps, means, by_name, pooled, weighed)}
