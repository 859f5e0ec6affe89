"""Programs in the manner of TF1 programs with tf.keras: each takes `tf` and gives what it came to, as JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.interop.keras.argument_programs import PROGRAMS as ARGUMENTS
from tests.interop.keras.backend_programs import PROGRAMS as BACKEND
from tests.interop.keras.data_programs import PROGRAMS as DATA
from tests.interop.keras.described_programs import PROGRAMS as DESCRIBED
from tests.interop.keras.example_programs import PROGRAMS as EXAMPLES
from tests.interop.keras.layer_programs import PROGRAMS as LAYERS
from tests.interop.keras.metric_programs import PROGRAMS as METRICS
from tests.interop.keras.more_programs import PROGRAMS as MORE
from tests.interop.keras.option_programs import PROGRAMS as OPTIONS
from tests.interop.keras.whole_programs import PROGRAMS as WHOLE


def _data(*shape: int, seed: int = 5) -> Any:
    return np.random.RandomState(seed).rand(*shape).astype("float32")


def _model(tf: Any, model: Any, history: Any = None) -> dict[str, Any]:
    values = model.get_weights()
    return {
        "history": {k: [float(v) for v in vs] for k, vs in (history.history if history else {}).items()},
        "weights": [w.name for w in model.weights],
        "values": [np.asarray(v).ravel()[:8].tolist() for v in values],
        "variables": [v.name for v in tf.global_variables()],
        "names": [model.name, *model.input_names, *model.output_names],
        "layers": [layer.name for layer in model.layers],
    }


def mlp(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    regularizer = tf.keras.regularizers.l2(0.01)
    model = tf.keras.Sequential(
        [
            layers.Dense(8, activation="relu", input_shape=(4,), kernel_initializer="he_normal"),
            layers.Dropout(0.3),
            layers.Dense(6, activation="tanh", kernel_regularizer=regularizer, bias_initializer="ones"),
            layers.Dense(3, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    y = np.random.RandomState(2).randint(0, 3, 20)
    history = model.fit(_data(20, 4), y, batch_size=6, epochs=3, verbose=0, validation_split=0.25)
    out = _model(tf, model, history)
    out["evaluated"] = [float(v) for v in model.evaluate(_data(20, 4), y, verbose=0)]
    out["predicted"] = model.predict(_data(5, 4)).tolist()
    out["batch"] = [float(v) for v in model.train_on_batch(_data(6, 4), y[:6])]
    return out


def cnn(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    model = tf.keras.models.Sequential()
    model.add(layers.Conv2D(4, (3, 3), padding="same", activation="relu", input_shape=(8, 8, 1)))
    model.add(layers.BatchNormalization())
    model.add(layers.MaxPooling2D((2, 2)))
    model.add(layers.Conv2D(6, 3, strides=2))
    model.add(layers.Activation("relu"))
    model.add(layers.Flatten())
    model.add(layers.BatchNormalization())
    model.add(layers.Dropout(0.5))
    model.add(layers.Dense(1, activation="sigmoid"))
    optimizer = tf.keras.optimizers.SGD(lr=0.05, momentum=0.9, nesterov=True)
    model.compile(optimizer=optimizer, loss="binary_crossentropy", metrics=["accuracy"])
    y = np.random.RandomState(2).randint(0, 2, (16, 1))
    history = model.fit(_data(16, 8, 8, 1), y, batch_size=8, epochs=2, verbose=0)
    out = _model(tf, model, history)
    out["evaluated"] = [float(v) for v in model.evaluate(_data(16, 8, 8, 1), y, verbose=0)]
    return out


def text(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Embedding(20, 6, mask_zero=True), layers.LSTM(5), layers.Dense(1, activation="sigmoid")]
    )
    model.compile("rmsprop", "binary_crossentropy", metrics=["acc"])
    x = np.random.RandomState(4).randint(0, 20, (12, 7))
    history = model.fit(x, np.arange(12) % 2, batch_size=4, epochs=2, verbose=0)
    return _model(tf, model, history)


def recurrent(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    inputs = tf.keras.Input((5, 3))
    x = layers.Bidirectional(layers.LSTM(4, return_sequences=True))(inputs)
    x = layers.GRU(4, return_sequences=True)(x)
    x = layers.TimeDistributed(layers.Dense(3))(x)
    outputs = layers.SimpleRNN(2)(x)
    model = tf.keras.Model(inputs, outputs)
    model.compile("adagrad", "mse")
    history = model.fit(_data(8, 5, 3), _data(8, 2), batch_size=4, epochs=2, verbose=0)
    return _model(tf, model, history)


def two_inputs(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    a, b = tf.keras.Input((3,), name="a"), tf.keras.Input((2,))
    shared = layers.Dense(4, activation="relu")
    joined = layers.concatenate([shared(a), b])
    hidden = tf.nn.relu(layers.add([layers.Dense(4)(joined), shared(a)])) * 2.0
    first, second = layers.Dense(1, name="first")(hidden), layers.Dense(3, activation="softmax", name="second")(hidden)
    model = tf.keras.Model(inputs=[a, b], outputs=[first, second])
    model.compile(
        "rmsprop",
        {"first": "mse", "second": "categorical_crossentropy"},
        loss_weights=[1.0, 0.5],
        metrics={"second": ["accuracy"]},
    )
    targets = [_data(8, 1), np.eye(3)[np.arange(8) % 3]]
    weights = [np.ones(8), np.arange(8) / 4.0]
    history = model.fit([_data(8, 3), _data(8, 2)], targets, epochs=3, verbose=0, sample_weight=weights)
    out = _model(tf, model, history)
    out["metrics"] = model.metrics_names
    return out


def custom_layer(tf: Any, folder: str) -> Any:
    class Scale(tf.keras.layers.Layer):
        def __init__(self, units: int, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.units = units

        def build(self, input_shape: Any) -> None:
            self.kernel = self.add_weight("kernel", shape=(int(input_shape[-1]), self.units), initializer="uniform")
            self.inner = tf.keras.layers.Dense(self.units)
            super().build(input_shape)

        def call(self, inputs: Any) -> Any:
            self.add_loss(0.1 * tf.reduce_sum(tf.square(self.kernel)))
            return self.inner(tf.matmul(inputs, self.kernel))

    class Net(tf.keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.scale = Scale(4)
            self.drop = tf.keras.layers.Dropout(0.4)
            self.heads = [tf.keras.layers.Dense(3, activation="relu"), tf.keras.layers.Dense(1)]

        def call(self, inputs: Any, training: Any = None) -> Any:
            x = self.drop(self.scale(inputs), training=training)
            for head in self.heads:
                x = head(x)
            return x

    model = Net()
    model.compile(tf.train.AdamOptimizer(0.01), "mse", metrics=["mae"])
    history = model.fit(_data(8, 3), _data(8, 1), batch_size=4, epochs=2, verbose=0)
    return _model(tf, model, history)


def own_loop(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 2])
    training = tf.placeholder_with_default(False, ())
    model = tf.keras.Sequential([layers.Dense(5, activation="relu"), layers.BatchNormalization(), layers.Dense(2)])
    logits = model(x, training=training)
    loss = tf.reduce_mean(tf.losses.mean_squared_error(y, logits)) + 0.0 * tf.add_n(model.losses or [tf.zeros([])])
    with tf.control_dependencies(model.updates):
        train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    saver = tf.train.Saver()
    path = os.path.join(folder, "own_loop")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [
            float(session.run([loss, train], {x: _data(6, 4), y: _data(6, 2), training: True})[0]) for _ in range(4)
        ]
        saver.save(session, path, write_meta_graph=False)
        final = session.run(model.weights)
    reader = tf.train.NewCheckpointReader(path)
    return {
        "losses": losses,
        "values": [v.ravel()[:8].tolist() for v in final],
        "weights": [w.name for w in model.weights],
        "saved": sorted(reader.get_variable_to_shape_map()),
    }


def callbacks(tf: Any, folder: str) -> Any:
    keras = tf.keras
    model = keras.Sequential([keras.layers.Dense(3, input_dim=3, kernel_constraint="max_norm"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.1, decay=0.01, clipnorm=1.0), keras.losses.Huber(), metrics=["mse"])
    seen: list[float] = []

    class Watch(keras.callbacks.Callback):  # type: ignore[misc]
        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            seen.append(float(logs["loss"]))

    found = [
        Watch(),
        keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (epoch + 1)),
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=2),
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=1),
    ]
    held = (_data(4, 3, seed=8), _data(4, 1, seed=9))
    history = model.fit(
        _data(9, 3), _data(9, 1), batch_size=4, epochs=6, verbose=0, callbacks=found, validation_data=held
    )
    return {**_model(tf, model, history), "seen": seen}


PROGRAMS: dict[str, Callable[[Any, str], Any]] = {
    **{f.__name__: f for f in (mlp, cnn, text, recurrent, two_inputs, custom_layer, own_loop, callbacks)},
    **MORE,
    **BACKEND,
    **ARGUMENTS,
    **OPTIONS,
    **WHOLE,
    **EXAMPLES,
    **METRICS,
    **LAYERS,
    **DESCRIBED,
    **DATA,
}


NEEDS = {"augmented": "scipy", "files": "PIL", "tables": "PIL", "qualities": "PIL"}
"""What some programs need besides, of the TensorFlow that runs them too."""


def checkpointed(tf: Any) -> tuple[Any, Any]:
    """A trained model and what keeps it."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(4, input_shape=(3,)), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam(0.05)
    model.compile(optimizer, "mse")
    extra = tf.Variable(3.0, name="extra", use_resource=True)
    kept = tf.train.Checkpoint(model=model, optimizer=optimizer, extra=[extra])
    return model, kept


def save(tf: Any, folder: str) -> Any:
    """Train and save; returns the keys, the weights and what the next step gives."""
    model, kept = checkpointed(tf)
    for _ in range(3):
        model.train_on_batch(_data(4, 3), _data(4, 1))
    session = tf.keras.backend.get_session()
    session.run(kept.extra[0].initializer)
    session.run(kept.extra[0].assign(7.0))
    with session.as_default():
        manager = tf.train.CheckpointManager(kept, folder, max_to_keep=1)
        manager.save()
        path = manager.save()
    os.mkdir(os.path.join(folder, "apart"))
    model.save_weights(os.path.join(folder, "apart", "weights"))
    reader = tf.train.NewCheckpointReader(path)
    keys = sorted(reader.get_variable_to_shape_map())
    return {"path": os.path.basename(path), "keys": keys, "next": _next(model)}


def _next(model: Any) -> list[float]:
    return [float(model.train_on_batch(_data(4, 3), _data(4, 1))) for _ in range(2)]


def restore(tf: Any, folder: str) -> Any:
    """Make everything anew, restore it, and train on."""
    model, kept = checkpointed(tf)
    model.train_on_batch(_data(4, 3), _data(4, 1))
    session = tf.keras.backend.get_session()
    status = kept.restore(tf.train.latest_checkpoint(folder))
    status.assert_consumed()
    status.initialize_or_restore(session)
    out = {"extra": float(session.run(kept.extra[0])), "next": _next(model)}
    model.load_weights(os.path.join(folder, "apart", "weights"))
    return {**out, "loaded": float(model.evaluate(_data(4, 3), _data(4, 1), verbose=0))}
