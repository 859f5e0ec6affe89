"""Programs whose models are described, cloned and saved: functions, ops and arguments of calls in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.interop.keras.example_programs import _given, _history
from tests.interop.keras.more_programs import _data


def _again(tf: Any, model: Any, x: Any, y: Any, folder: str) -> dict[str, Any]:
    """What a model comes to, from its file, its description and its clone."""
    models = tf.keras.models
    _given(model)
    model.train_on_batch(x, y)
    model.save(f"{folder}/model.h5")
    before = model.predict(x)
    loaded = models.load_model(f"{folder}/model.h5")
    out = {
        "before": _lists(before),
        "loaded": _lists(loaded.predict(x)),
        "next": np.ravel(loaded.train_on_batch(x, y)).tolist(),
    }
    made = models.model_from_json(model.to_json())
    made.set_weights(model.get_weights())
    cloned = models.clone_model(model)
    cloned.set_weights(model.get_weights())
    out["made"], out["cloned"] = _lists(made.predict(x)), _lists(cloned.predict(x))
    config = model.get_config()
    keys = [[each["class_name"], sorted(each["config"])] for each in config["layers"] if each["class_name"] == "Lambda"]
    calls = [str(each.get("inbound_nodes")) for each in config["layers"] if each["class_name"] != "TensorFlowOpLayer"]
    return {**out, "keys": keys, "calls": [c for c in calls if "tf_op" not in c and "to_h" not in c]}


def _lists(found: Any) -> Any:
    return [np.asarray(each).tolist() for each in (found if isinstance(found, list) else [found])]


def functions(tf: Any, folder: str) -> Any:
    """Functions as layers: with arguments, with values that they see, that give several tensors."""
    keras = tf.keras
    shift = 0.25

    def halves(x: Any) -> Any:
        return [x[:, :2], x[:, 2:]]

    def scaled(x: Any, by: float, power: int = 2) -> Any:
        return x * by + shift * x**power

    inputs = keras.Input((4,), name="inputs")
    left, right = keras.layers.Lambda(halves, name="halves")(inputs)
    x = keras.layers.Lambda(lambda pair: pair[0] * pair[1], output_shape=(2,), name="product")([left, right])
    x = keras.layers.Lambda(scaled, arguments={"by": 3.0}, name="scaled")(keras.layers.Dense(2, name="dense")(x))
    model = keras.Model(inputs, keras.layers.Lambda(lambda v: v - 1.0, name="less")(x))
    model.compile("sgd", "mse")
    out = _again(tf, model, _data(5, 4), _data(5, 2), folder)
    plain = keras.Sequential([keras.layers.Lambda(lambda v: v / 255.0, input_shape=(3,)), keras.layers.Dense(2)])
    plain.compile("sgd", "mse")
    out["sequence"] = _again(tf, plain, _data(5, 3), _data(5, 2), folder)["loaded"]
    return out


def calls(tf: Any, folder: str) -> Any:
    """Layers that are called with more than inputs: states, masks, phases."""
    keras = tf.keras
    x = keras.Input((4, 3), name="x")
    first, other = keras.Input((5,), name="first"), keras.Input((4,), dtype="bool", name="mask")
    h, c = keras.layers.Dense(5, name="to_h")(first), keras.layers.Dense(5, name="to_c")(first)
    seen, *states = keras.layers.LSTM(5, return_sequences=True, return_state=True, name="memory")(
        x, initial_state=[h, c]
    )
    masked = keras.layers.GRU(3, name="masked")(seen, mask=other)
    dropped = keras.layers.Dropout(0.5, seed=4, name="dropped")(masked, training=False)
    joined = keras.layers.concatenate([dropped, states[1]], name="joined")
    model = keras.Model([x, first, other], [keras.layers.Dense(2, name="out")(joined), states[0]])
    model.compile("sgd", "mse")
    data = [_data(5, 4, 3), _data(5, 5), np.arange(20).reshape(5, 4) % 3 > 0]
    return _again(tf, model, data, [_data(5, 2), _data(5, 5)], folder)


def ops(tf: Any, folder: str) -> Any:
    """Ops between layers, with constants and several inputs."""
    keras = tf.keras
    a, b = keras.Input((4,), name="a"), keras.Input((4,), name="b")
    x = keras.layers.Dense(3, name="dense")(tf.nn.relu(a - 0.2) * 2.0 + tf.reduce_mean(b, axis=1, keepdims=True))
    x = tf.concat([x, tf.transpose(tf.transpose(b)), a[:, 1:3]], axis=-1)
    model = keras.Model([a, b], keras.layers.Dense(2, name="last")(tf.matmul(x, np.ones((9, 3), np.float32))))
    model.compile("sgd", "mse")
    out = _again(tf, model, [_data(5, 4), _data(5, 4, seed=8)], _data(5, 2), folder)
    out.pop("keys")
    return out


def clones(tf: Any, folder: str) -> Any:
    """Clones on tensors of the program's, and with layers that a function makes."""
    keras = tf.keras
    shared = keras.layers.Dense(3, activation="tanh", name="shared")
    a, b = keras.Input((4,)), keras.Input((4,))
    model = keras.Model([a, b], keras.layers.Dense(1)(keras.layers.add([shared(a), shared(b)])))
    _given(model)
    tensors = [tf.constant(_data(3, 4)), tf.constant(_data(3, 4, seed=8))]
    on = keras.models.clone_model(model, input_tensors=tensors)
    on.set_weights(model.get_weights())
    on.compile("sgd", "mse", target_tensors=[tf.constant(_data(3, 1))])
    out: dict[str, Any] = {"value": keras.backend.get_value(on.outputs[0]).tolist()}
    out["fit"] = _history(on.fit(None, None, epochs=2, steps_per_epoch=1, verbose=0))
    sequence = keras.Sequential([keras.layers.Dense(3, input_shape=(4,)), keras.layers.ReLU(), keras.layers.Dense(1)])
    _given(sequence)
    fresh = keras.Input((4,))
    cloned = keras.models.clone_model(sequence, input_tensors=fresh)
    cloned.set_weights(sequence.get_weights())
    out["sequence"] = cloned.predict(_data(2, 4)).tolist()

    def changed(layer: Any) -> Any:
        config = layer.get_config()
        return type(layer).from_config({**config, "use_bias": False} if "use_bias" in config else config)

    bare = keras.models.clone_model(model, clone_function=changed)
    out["bare"] = [w.shape.as_list() for w in bare.weights]
    out["names"] = [bare.name, *[layer.name.split("_")[0] for layer in bare.layers]]
    out["sources"] = sorted(t.op.name.split("_")[0] for t in keras.utils.get_source_inputs(model.outputs[0]))
    return out


PROGRAMS = {f.__name__: f for f in (functions, calls, ops, clones)}
