"""Models that are saved as SavedModels: served, and loaded again as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

keras = tf.keras
X = np.random.RandomState(3).rand(6, 4).astype("float32")
Y = np.random.RandomState(4).rand(6, 2).astype("float32")


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    keras.backend.clear_session()
    yield
    keras.backend.clear_session()


def trained() -> Any:
    model = keras.Sequential(
        [keras.layers.Dense(3, activation="relu", input_shape=(4,)), keras.layers.BatchNormalization()]
    )
    model.add(keras.layers.Dense(2, name="out"))
    model.compile(keras.optimizers.Adam(0.05), "mse", metrics=["mae"])
    model.fit(X, Y, epochs=2, verbose=0)
    return model


def test_a_model_goes_on_where_it_was_saved(tmp_path: Path) -> None:
    model = trained()
    path = str(tmp_path / "model")
    model.save(path, save_format="tf")
    predicted, weights = model.predict(X), model.get_weights()
    model.reset_metrics()
    following = [model.train_on_batch(X, Y) for _ in range(3)]
    keras.backend.clear_session()
    loaded = keras.models.load_model(path)
    assert type(loaded) is keras.Sequential and loaded.metrics_names == model.metrics_names
    for have, want in zip(loaded.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(have, want)
    np.testing.assert_allclose(loaded.predict(X), predicted, rtol=1e-6)
    np.testing.assert_allclose([loaded.train_on_batch(X, Y) for _ in range(3)], following, rtol=1e-5)


def test_it_is_a_saved_model_with_a_signature(tmp_path: Path) -> None:
    model = trained()
    path, predicted = str(tmp_path / "model"), model.predict(X)
    model.save(path, save_format="tf")
    with tf.Graph().as_default(), tf.Session() as session:
        graph = tf.saved_model.loader.load(session, ["serve"], path)
        signature = graph.signature_def["serving_default"]
        fed = {signature.inputs[model.input_names[0]].name: X}
        np.testing.assert_allclose(session.run(signature.outputs["out"].name, fed), predicted, rtol=1e-6)


def test_what_is_there_is_replaced_only_where_it_may_be(tmp_path: Path) -> None:
    model = trained()
    path = tmp_path / "model"
    model.save(path, save_format="tf")
    (path / "stale").touch()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        model.save(path, overwrite=False, save_format="tf")
    model.save(path, save_format="tf")
    assert not (path / "stale").exists() and [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_model_that_is_code_is_served_but_not_loaded(tmp_path: Path) -> None:
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, inputs: Any) -> Any:
            return self.dense(inputs)

    model, path = Own(), str(tmp_path / "own")
    with pytest.raises(ValueError, match="no inputs yet"):
        model.save(path, save_format="tf")
    model.predict(X)
    model.save(path, save_format="tf", include_optimizer=False)
    with pytest.raises(NotImplementedError, match=r"tf\.saved_model\.load"):
        keras.models.load_model(path)


def test_what_is_registered_needs_no_table() -> None:
    @keras.utils.register_keras_serializable("mine")
    class Twice(keras.layers.Layer):
        def call(self, inputs: Any) -> Any:
            return inputs * 2

    model = keras.Sequential([Twice(input_shape=(4,))])
    assert '"class_name": "mine>Twice"' in model.to_json()
    again = keras.models.model_from_json(model.to_json())
    np.testing.assert_array_equal(again.predict(X), X * 2)
    with pytest.raises(ValueError, match="already been registered"):
        keras.utils.register_keras_serializable("mine")(Twice)
