"""More programs with tf.keras: attention, optimizers that few take, volumes."""

from __future__ import annotations

from typing import Any

import numpy as np


def _data(*shape: int, seed: int = 5) -> Any:
    return np.random.RandomState(seed).rand(*shape).astype("float32")


def _came_to(tf: Any, model: Any, history: Any) -> dict[str, Any]:
    return {
        "loss": [float(v) for v in history.history["loss"]],
        "weights": [w.name for w in model.weights],
        "values": [np.asarray(v).ravel()[:8].tolist() for v in model.get_weights()],
        "layers": [layer.name for layer in model.layers],
    }


def attention(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    tokens = layers.Input([5], dtype="int32")
    found = layers.Embedding(12, 4, mask_zero=True)(tokens)
    query = layers.Dense(4)(found)
    additive = layers.AdditiveAttention()([query, found])
    scaled = layers.Attention(use_scale=True, causal=True)([query, found, additive])
    pooled = layers.GlobalAveragePooling1D()(layers.Concatenate()([additive, scaled]))
    model = tf.keras.Model(tokens, layers.Dense(1)(pooled))
    model.compile("sgd", "mse")
    x = np.random.RandomState(3).randint(0, 12, (12, 5))
    out = _came_to(tf, model, model.fit(x, _data(12, 1), batch_size=4, epochs=2, verbose=0, shuffle=False))
    return {**out, "predicted": model.predict(x[:3]).tolist()}


def heads(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    sentence, other = layers.Input([4, 6]), layers.Input([5, 3])
    seen, weights = layers.MultiHeadAttention(2, 3, value_dim=2)(sentence, other, return_attention_scores=True)
    again = layers.MultiHeadAttention(1, 2, use_bias=False, output_shape=3)(seen, seen)
    model = tf.keras.Model([sentence, other], [again, weights])
    model.compile("sgd", "mse")
    x, y = _data(6, 4, 6), _data(6, 5, 3, seed=1)
    targets = [_data(6, 4, 3), _data(6, 2, 4, 5)]
    out = _came_to(tf, model, model.fit([x, y], targets, batch_size=3, epochs=2, verbose=0, shuffle=False))
    out["weights"] = [name.split("/", 1)[1] for name in out["weights"]]
    return {**out, "predicted": [p.tolist() for p in model.predict([x[:2], y[:2]])]}


def optimizers(tf: Any, folder: str) -> Any:
    layers, found = tf.keras.layers, tf.keras.optimizers
    out = {}
    for optimizer in (
        found.Nadam(0.02),
        found.Nadam(0.02, schedule_decay=0.02),
        found.Ftrl(0.1, l1_regularization_strength=0.01, beta=0.2),
        found.Ftrl(0.1, l2_shrinkage_regularization_strength=0.1),
        found.get("nadam"),
    ):
        tf.keras.backend.clear_session()
        tf.set_random_seed(7)
        model = tf.keras.Sequential(
            [layers.Embedding(7, 3, input_length=4), layers.Flatten(), layers.Dense(2, activation="tanh")]
        )
        model.compile(optimizer, "mse")
        x = np.random.RandomState(3).randint(0, 7, (12, 4))
        history = model.fit(x, _data(12, 2), batch_size=4, epochs=3, verbose=0, shuffle=False)
        out[f"{len(out)} {optimizer.get_config()['name']}"] = {
            **_came_to(tf, model, history),
            "slots": [w.name for w in model.optimizer.weights],
        }
    return out


def volumes(tf: Any, folder: str) -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.ZeroPadding3D((1, 0, 2), input_shape=(4, 4, 4, 2)),
            layers.Conv3D(3, 2),
            layers.UpSampling3D((1, 2, 1)),
            layers.Cropping3D(((1, 0), (1, 1), (0, 2))),
            layers.GlobalAveragePooling3D(),
            layers.Reshape((3, 1)),
            layers.Cropping1D((0, 1)),
            layers.Flatten(),
        ]
    )
    model.compile("sgd", "mse")
    x = _data(4, 4, 4, 4, 2)
    out = _came_to(tf, model, model.fit(x, _data(4, 2), epochs=2, verbose=0))
    copied = tf.keras.Sequential.from_config(model.get_config())
    copied.set_weights(model.get_weights())
    largest = tf.keras.Sequential([layers.GlobalMaxPooling3D(input_shape=(4, 4, 4, 2))])
    return {**out, "copied": copied.predict(x[:2]).tolist(), "largest": largest.predict(x).tolist()}


PROGRAMS = {"attention": attention, "heads": heads, "optimizers": optimizers, "volumes": volumes}
