"""Programs with tf.keras that save whole models and go on with what they load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.interop.keras.more_programs import _data


def _images(tf: Any) -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Conv2D(3, 3, activation="relu", input_shape=(6, 6, 2), kernel_regularizer="l2"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.0),
            layers.Dense(4, activation="softmax", kernel_initializer=tf.keras.initializers.he_normal(seed=3)),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model, _data(8, 6, 6, 2), np.arange(8) % 4


def _branches(tf: Any) -> Any:
    layers = tf.keras.layers
    steps = tf.keras.Input((5,), dtype="int32", name="steps")
    more = tf.keras.Input((3,), name="more")
    hidden = layers.LSTM(4, name="memory")(layers.Embedding(7, 3, mask_zero=True)(steps))
    shared = layers.Dense(4, activation="tanh", kernel_constraint=tf.keras.constraints.MaxNorm(1.5), name="shared")
    both = layers.concatenate([shared(hidden), shared(layers.Dense(4, activation="elu")(more))])
    outs = [layers.Dense(1, name="value")(both), layers.Dense(2, activation="sigmoid", name="kinds")(both)]
    model = tf.keras.Model([steps, more], outs)
    model.compile(
        tf.keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True),
        {"value": "mse", "kinds": tf.keras.losses.BinaryCrossentropy(label_smoothing=0.1)},
        metrics={"value": ["mae"], "kinds": [tf.keras.metrics.BinaryAccuracy(threshold=0.4)]},
        loss_weights={"value": 0.5, "kinds": 2.0},
    )
    x = [np.arange(30).reshape(6, 5) % 7, _data(6, 3)]
    return model, x, [_data(6, 1, seed=1), (_data(6, 2, seed=2) > 0.5).astype("float32")]


def _nested(tf: Any) -> Any:
    layers = tf.keras.layers
    inner = tf.keras.Sequential([layers.Dense(3, input_shape=(4,)), layers.PReLU()], name="inner")
    model = tf.keras.Sequential(
        [
            layers.TimeDistributed(inner, input_shape=(5, 4)),
            layers.Bidirectional(layers.GRU(3, return_sequences=True)),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2, bias_regularizer=tf.keras.regularizers.l1_l2(0.01, 0.02)),
        ]
    )
    model.compile(tf.keras.optimizers.RMSprop(0.01, rho=0.8), "mae")
    return model, _data(6, 5, 4), _data(6, 2, seed=3)


KINDS = {"images": _images, "branches": _branches, "nested": _nested}


def _give(model: Any) -> None:
    random = np.random.RandomState(4)
    model.set_weights([0.6 * random.rand(*value.shape) + 0.02 for value in model.get_weights()])


def _lists(found: Any) -> Any:
    return [np.asarray(each).tolist() for each in found] if isinstance(found, list) else np.asarray(found).tolist()


def whole(tf: Any, folder: str) -> Any:
    """Train, save, go on: what was saved, loaded in a new graph, goes on in the same way."""
    out = {}
    for kind, make in KINDS.items():
        tf.keras.backend.clear_session()
        model, x, y = make(tf)
        _give(model)
        for _ in range(2):
            model.train_on_batch(x, y)
        path = Path(folder, f"{kind}.h5")
        model.save(str(path))
        out[kind] = {"predicted": _lists(model.predict(x)), "state": len(model.optimizer.get_weights())}
        out[kind]["weights"] = [variable.name for variable in model.weights]
        tf.keras.backend.clear_session()
        out[kind] |= goes_on(tf, str(path), x, y)
    return out


def goes_on(tf: Any, path: str, x: Any, y: Any) -> dict[str, Any]:
    """Load a model and train it; what it then comes to."""
    model = tf.keras.models.load_model(path)
    found: dict[str, Any] = {"loaded": _lists(model.predict(x)), "names": list(model.metrics_names)}
    found["evaluated"] = [float(v) for v in np.ravel(model.evaluate(x, y, verbose=0))]
    found["restored"] = [float(np.sum(v)) for v in model.optimizer.get_weights()]
    found["next"] = [float(v) for v in np.ravel(model.train_on_batch(x, y))]
    found["after"] = _lists(model.predict(x))
    return found


def crossed(tf: Any, folder: str) -> Any:
    """Load what another runtime has saved."""
    out = {}
    for kind, make in KINDS.items():
        _, x, y = make(tf)
        tf.keras.backend.clear_session()
        out[kind] = goes_on(tf, str(Path(folder, f"{kind}.h5")), x, y)
    return out


PROGRAMS = {"whole": whole}
