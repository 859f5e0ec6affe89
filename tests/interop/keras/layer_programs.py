"""Programs with layers that few take: noise, transposed and depthwise convolutions, cells of the program's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.keras.example_programs import _given, _history
from tests.interop.keras.more_programs import _data


def _trained(tf: Any, parts: list[Any], x: Any, y: Any, loss: str = "mse") -> dict[str, Any]:
    """A step and what follows of a model of these layers, and of one that its description makes."""
    model = tf.keras.Sequential(parts)
    model.compile("sgd", loss)
    _given(model)
    before = model.predict(x).tolist()
    history = model.fit(x, y, batch_size=3, epochs=2, verbose=0, shuffle=False)
    copied = tf.keras.Sequential.from_config(model.get_config())
    copied.set_weights(model.get_weights())
    return {
        "before": before,
        "history": _history(history),
        "names": [w.name for w in model.weights],
        "values": [np.asarray(v).ravel()[:6].tolist() for v in model.get_weights()],
        "shapes": [[*layer.output_shape] for layer in model.layers],
        "copied": copied.predict(x).tolist(),
    }


def noise(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    shared = layers.Dropout(0.4, seed=3)
    a, b = layers.Input((4,)), layers.Input((4,))
    model = tf.keras.Model([a, b], layers.Dense(2)(layers.subtract([shared(a), shared(b)])))
    model.compile("sgd", "mse")
    _given(model)
    history = model.fit([_data(6, 4), _data(6, 4, seed=8)], _data(6, 2), 3, 3, 0, shuffle=False)
    parts = [
        layers.GaussianDropout(0.3, seed=4, input_shape=(4, 3)),
        layers.AlphaDropout(0.4, seed=5),
        layers.GaussianNoise(0.2, seed=9),
        layers.SpatialDropout1D(0.5, seed=2),
        layers.Dropout(0.5, (None, 1, 3), seed=6),
        layers.AlphaDropout(0.0),
        layers.Dropout(0),
        layers.Flatten(),
        layers.Dense(2),
    ]
    volumes = [layers.SpatialDropout3D(0.5, seed=7, input_shape=(2, 2, 2, 3)), layers.Flatten(), layers.Dense(2)]
    images = [
        layers.SpatialDropout2D(0.5, "channels_first", seed=7, input_shape=(3, 2, 2)),
        layers.Flatten(),
        layers.Dense(2),
    ]
    return {
        "shared": _history(history),
        "parts": _trained(tf, parts, _data(6, 4, 3), _data(6, 2)),
        "volumes": _trained(tf, volumes, _data(6, 2, 2, 2, 3), _data(6, 2)),
        "images": _trained(tf, images, _data(6, 3, 2, 2), _data(6, 2)),
    }


def transposed(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    lines = [
        layers.Conv1DTranspose(3, 3, 2, "same", activation="relu", input_shape=(4, 2), kernel_regularizer="l2"),
        layers.Conv1DTranspose(2, 4, strides=3, output_padding=1),
        layers.DepthwiseConv1D(3, depth_multiplier=2, activation="tanh"),
        layers.DepthwiseConv1D(2, 2, "same", use_bias=False, depthwise_constraint="max_norm"),
        layers.Conv1DTranspose(1, 2, dilation_rate=2, use_bias=False),
        layers.Flatten(),
        layers.Dense(2),
    ]
    volumes = [
        layers.Conv3DTranspose(2, 2, 2, "same", input_shape=(2, 2, 1, 2), bias_initializer="ones"),
        layers.Conv3DTranspose(1, (1, 2, 3), strides=(2, 1, 3), output_padding=(1, 0, 2)),
        layers.Conv3DTranspose(2, 2, activation="sigmoid", kernel_constraint="unit_norm"),
        layers.Flatten(),
        layers.Dense(2),
    ]
    return {
        "lines": _trained(tf, lines, _data(6, 4, 2), _data(6, 2)),
        "volumes": _trained(tf, volumes, _data(6, 2, 2, 1, 2), _data(6, 2)),
    }


def convolved(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    lines = [
        layers.ConvLSTM1D(3, 2, padding="same", return_sequences=True, input_shape=(3, 4, 2)),
        layers.ConvLSTM1D(2, 3, strides=2, go_backwards=True, recurrent_activation="sigmoid"),
        layers.Flatten(),
        layers.Dense(2),
    ]
    volumes = [
        layers.ConvLSTM3D(2, 2, padding="same", input_shape=(3, 2, 2, 2, 1), use_bias=False),
        layers.Flatten(),
        layers.Dense(2),
    ]
    return {
        "lines": _trained(tf, lines, _data(6, 3, 4, 2), _data(6, 2)),
        "volumes": _trained(tf, volumes, _data(6, 3, 2, 2, 2, 1), _data(6, 2)),
    }


def own_cells(tf: Any, folder: str) -> Any:
    """Cells of the program's own: with the base that Keras has, with lists of states, with constants."""
    keras, backend = tf.keras, tf.keras.backend

    class Minimal(keras.layers.AbstractRNNCell):  # type: ignore[name-defined,misc]
        def __init__(self, units: int, **kwargs: Any) -> None:
            self.units = units
            super().__init__(**kwargs)

        @property
        def state_size(self) -> Any:
            return self.units

        @property
        def output_size(self) -> Any:
            return self.units

        def build(self, input_shape: Any) -> None:
            self.kernel = self.add_weight(shape=(input_shape[-1], self.units), initializer="uniform", name="kernel")
            self.again = self.add_weight(shape=(self.units, self.units), initializer="uniform", name="recurrent_kernel")
            self.built = True

        def call(self, inputs: Any, states: Any) -> Any:
            output = backend.dot(inputs, self.kernel) + backend.dot(states[0], self.again)
            return output, [output]

        def get_config(self) -> Any:
            return {**super().get_config(), "units": self.units}

    class Steered(keras.layers.Layer):  # type: ignore[name-defined,misc]
        def __init__(self, units: int, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.units, self.state_size = units, units

        def build(self, input_shape: Any) -> None:
            shapes = input_shape if isinstance(input_shape, list) else [input_shape, (None, 2)]
            self.kernel = self.add_weight(shape=(shapes[0][-1], self.units), initializer="uniform", name="kernel")
            self.steer = self.add_weight(shape=(2, self.units), initializer="uniform", name="steer")
            self.built = True

        def call(self, inputs: Any, states: Any, constants: Any) -> Any:
            [held], [constant] = states, constants
            output = backend.tanh(backend.dot(inputs, self.kernel) + backend.dot(constant, self.steer) + 0.5 * held)
            return output, [output]

    x = keras.Input((4, 3))
    y = keras.layers.RNN([Minimal(3), Minimal(2)], return_sequences=True, name="stack")(x)
    model = keras.Model(x, keras.layers.RNN(Minimal(2), go_backwards=True)(y))
    model.compile("rmsprop", "mse")
    _given(model)
    out = {"plain": _history(model.fit(_data(6, 4, 3), _data(6, 2), 3, 2, 0, shuffle=False))}
    out["names"] = [w.name for w in model.weights]
    with keras.utils.custom_object_scope({"Minimal": Minimal}):
        copied = keras.Model.from_config(model.get_config())
    copied.set_weights(model.get_weights())
    out["copied"] = copied.predict(_data(2, 4, 3)).tolist()
    x, constant = keras.Input((4, 3)), keras.Input((2,))
    model = keras.Model([x, constant], keras.layers.RNN(Steered(3))(x, constants=constant))
    model.compile("sgd", "mse")
    _given(model)
    out["steered"] = _history(model.fit([_data(6, 4, 3), _data(6, 2)], _data(6, 3), 3, 2, 0, shuffle=False))
    return out


def of_cudnn(tf: Any, folder: str) -> Any:
    """Weights of recurrent layers in files, as cuDNN has them and as the others have them."""
    keras = tf.keras

    def made(kind: str, both: bool, **own: Any) -> Any:
        layer = getattr(keras.layers, kind)(3, name="memory", **own)
        layer = keras.layers.Bidirectional(layer, name="both") if both else layer
        if kind in ("LSTM", "GRU"):
            model = keras.Sequential([layer])
            model.build((None, 4, 2))
            return model

        class Held(keras.Model):  # type: ignore[name-defined,misc]
            """A model that is not called: TensorFlow has no such layer where there is no GPU."""

            def __init__(self) -> None:
                super().__init__()
                self.memory = layer

        for each in (layer.forward_layer, layer.backward_layer) if both else (layer,):
            with tf.name_scope(each.name):
                each.build(tf.TensorShape((None, 4, 2)))
            each.built = True
        model = Held()
        model.built = True
        return model

    out = {}
    pairs = [
        ("LSTM", "CuDNNLSTM", {"recurrent_activation": "sigmoid"}),
        ("GRU", "CuDNNGRU", {"recurrent_activation": "sigmoid", "reset_after": True}),
    ]
    for plain, other, own in pairs:
        for both in (False, True):
            keras.backend.clear_session()
            model = made(plain, both, **own)
            _given(model)
            model.save_weights(f"{folder}/plain.h5")
            changed = made(other, both)
            fresh = [w.tolist() for w, v in zip(changed.get_weights(), changed.weights) if "bias" in v.name]
            changed.load_weights(f"{folder}/plain.h5")
            changed.save_weights(f"{folder}/changed.h5")
            back = made(plain, both, **own)
            back.load_weights(f"{folder}/changed.h5")
            out[f"{plain} {both}"] = {
                "fresh": fresh,
                "changed": [w.tolist() for w in changed.get_weights()],
                "back": [w.tolist() for w in back.get_weights()],
                "predicted": back.predict(_data(3, 4, 2)).tolist(),
            }
    out["configs"] = [sorted(getattr(keras.layers, kind)(3).get_config()) for kind in ("CuDNNLSTM", "CuDNNGRU")]
    return out


PROGRAMS = {f.__name__: f for f in (noise, transposed, convolved, own_cells, of_cudnn)}
