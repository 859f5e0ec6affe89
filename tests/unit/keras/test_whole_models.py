"""Models that are saved whole: what comes back, what is refused, and what a file that is none says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import dtfctl.runtime as tf

layers = tf.keras.layers
X, Y = np.random.RandomState(1).rand(6, 3).astype("float32"), np.random.RandomState(2).rand(6, 2).astype("float32")


@pytest.fixture(autouse=True)
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as opened:
        yield opened


class Unwritten(layers.Layer):
    """A layer that does not say how it is made again."""

    def __init__(self, factor: float) -> None:
        super().__init__()


class Scaled(layers.Layer):
    """A layer of the program's own."""

    def __init__(self, factor: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = factor

    def call(self, inputs: Any) -> Any:
        return inputs * self.factor

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "factor": self.factor}


def trained(*more: Any) -> Any:
    model = tf.keras.Sequential([layers.Dense(4, input_shape=(3,)), *more, layers.Dense(2)])
    model.compile(tf.keras.optimizers.Adam(0.1), "mse", [tf.keras.metrics.AUC(8), "mae"])
    model.train_on_batch(X, Y)
    return model


def test_a_model_that_is_loaded_goes_on_as_the_saved_one_would(tmp_path: Path) -> None:
    model, path = trained(), tmp_path / "new" / "model"
    model.save(path)  # without a suffix, too
    loaded = tf.keras.models.load_model(path)
    assert [w.shape.as_list() for w in loaded.weights] == [[3, 4], [4], [4, 2], [2]]
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.metrics_names == ["loss", "auc", "mean_absolute_error"]
    np.testing.assert_allclose(loaded.train_on_batch(X, Y), model.train_on_batch(X, Y), rtol=1e-6)
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-5)


def test_what_a_model_is_compiled_with_is_no_part_of_it() -> None:
    model = trained()
    assert len(model.weights) == 4 and len(model.get_weights()) == 4
    assert model.predict(X).shape == (6, 2), "which needs no targets"


def test_layers_of_the_programs_own_are_known_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "model.h5")
    trained(Scaled(3.0)).save(path)
    with pytest.raises(ValueError, match=r"Unknown layer: Scaled.*CustomObjectScope"):
        tf.keras.models.load_model(path)
    assert tf.keras.models.load_model(path, {"Scaled": Scaled}).layers[1].factor == 3.0
    with tf.keras.utils.CustomObjectScope({"Scaled": Scaled}):
        assert tf.keras.models.load_model(path, compile=False).optimizer is None


def test_without_the_optimizer_a_model_is_not_compiled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = str(tmp_path / "model.h5")
    trained().save(path, include_optimizer=False)
    loaded = tf.keras.models.load_model(path)
    assert loaded.optimizer is None and "compile it before" in caplog.text
    model = trained()
    model.compile(tf.train.AdamOptimizer(), "mse")
    model.save(path)
    assert "an optimizer of tf.train is not saved" in caplog.text


def test_what_cannot_be_saved_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "model.h5"
    with pytest.raises(NotImplementedError, match="Unwritten"):
        trained(Unwritten(2)).save(path)
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        trained().save(path, overwrite=False)
    assert path.read_text() == "mine"


def test_a_save_that_fails_leaves_the_file_before_it(tmp_path: Path) -> None:
    path = tmp_path / "model.h5"
    model = trained(Scaled(3.0))
    model.save(path)
    before = path.read_bytes()
    model.layers[1].factor = object()  # which is no JSON
    with pytest.raises(TypeError, match="Not JSON serializable"):
        model.save(path)
    model.layers[0].get_weights = lambda: [object()] * 2
    with pytest.raises(TypeError):
        model.save_weights(str(path))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_a_checkpoint_of_what_cannot_be_saved_fails_before_the_first_epoch(tmp_path: Path) -> None:
    model = trained(Unwritten(2))
    before = model.get_weights()
    with pytest.raises(NotImplementedError, match=r"Unwritten.*save_weights_only=True"):
        model.fit(X, Y, verbose=0, callbacks=[tf.keras.callbacks.ModelCheckpoint(str(tmp_path / "model.h5"))])
    for now, then in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_a_file_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        tf.keras.models.load_model(tmp_path / "nowhere.h5")
    path = str(tmp_path / "weights.h5")
    trained().save_weights(path)
    with pytest.raises(ValueError, match="load_weights"):
        tf.keras.models.load_model(path)


def test_names_that_are_too_many_for_one_attribute_come_back(tmp_path: Path) -> None:
    names = [f"{'deep/' * 40}{n}" for n in range(700)]
    from dtfctl.runtime.keras import hdf5

    with h5py.File(tmp_path / "long.h5", "w") as file:
        hdf5.write_names(file, "layer_names", names)
        assert "layer_names" not in file.attrs and "layer_names0" in file.attrs
    with h5py.File(tmp_path / "long.h5", "r") as file:
        assert hdf5.read_names(file, "layer_names") == names


def test_after_each_epoch_the_whole_model_is_saved(tmp_path: Path) -> None:
    model = trained()
    saves = tf.keras.callbacks.ModelCheckpoint(str(tmp_path / "at-{epoch}.h5"))
    model.fit(X, Y, epochs=2, verbose=0, callbacks=[saves])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["at-1.h5", "at-2.h5"]
    with h5py.File(tmp_path / "at-2.h5") as file:
        assert json.loads(file.attrs["model_config"])["class_name"] == "Sequential"
    np.testing.assert_array_equal(tf.keras.models.load_model(tmp_path / "at-2.h5").predict(X), model.predict(X))


@pytest.mark.parametrize("name", ["model.h5", "folder"])
def test_code_in_a_model_is_refused_where_that_is_asked_for(name: str, tmp_path: Path) -> None:
    layers, path = tf.keras.layers, str(tmp_path / name)
    model = tf.keras.Sequential([layers.Lambda(lambda x: x * 3.0, input_shape=(2,)), layers.Dense(1)])
    model.save(path)
    with pytest.raises(ValueError, match="safe_mode refuses"):
        tf.keras.models.load_model(path, safe_mode=True)
    loaded = tf.keras.models.load_model(path)
    x = np.ones((1, 2), np.float32)
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
