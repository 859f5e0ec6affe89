"""Keras models compiled in the scope of a strategy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.strategies.test_between_graphs import cluster, in_all, multi_worker
from tests.unit.strategies.test_mirrored import X, Y, mirrored

pytestmark = pytest.mark.slow

layers = tf.keras.layers


@pytest.fixture(autouse=True)
def own_graph() -> Iterator[None]:
    tf.keras.backend.clear_session()
    yield
    tf.keras.backend.clear_session()


def start(*shape: int) -> Any:
    return tf.constant_initializer(np.random.default_rng(sum(shape)).normal(size=shape))


class Called(tf.keras.Model):
    """A model by a subclass, with losses that its layers add."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = layers.Dense(5, "tanh", kernel_initializer=start(6, 5), activity_regularizer="l2")
        self.out = layers.Dense(2, kernel_initializer=start(5, 2))

    def call(self, inputs: Any, training: Any = None) -> Any:
        found = self.out(self.hidden(inputs["rows"]))
        self.add_loss(0.01 * tf.reduce_sum(self.out.kernel**2))
        return found


def plain(metrics: Any = ("mae",), **compiled: Any) -> Any:
    model = tf.keras.Sequential(
        [
            layers.Dense(5, "tanh", input_shape=(6,), kernel_initializer=start(6, 5), kernel_regularizer="l2"),
            layers.Dense(2, kernel_initializer=start(5, 2)),
        ]
    )
    model.compile(tf.keras.optimizers.Adam(0.01), "mse", metrics=list(metrics), **compiled)
    return model


def came_to(model: Any, **fit: Any) -> list[Any]:
    history = model.fit(X, Y, verbose=0, shuffle=False, **{"epochs": 2, **fit})
    return [*history.history.values(), model.evaluate(X, Y, verbose=0), model.predict(X), *model.get_weights()]


def same(have: list[Any], want: list[Any]) -> None:
    for a, b in zip(have, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@contextlib.contextmanager
def scope(count: int) -> Iterator[None]:
    with mirrored(count).scope() if count else contextlib.nullcontext():
        yield


def test_batches_that_replicas_cannot_share_evenly_count_each_example_once() -> None:
    found = []
    for count in (0, 3):
        with scope(count):
            model = plain()
        found.append(came_to(model, batch_size=5, sample_weight=np.linspace(0.2, 2, 8)))
    same(found[1], found[0])


def test_weighted_metrics_class_weights_and_held_out_rows() -> None:
    labels, found = np.arange(8) % 2, []
    for count in (0, 2):
        with scope(count):
            model = tf.keras.Sequential([layers.Dense(2, "softmax", input_shape=(6,), kernel_initializer=start(6, 2))])
            model.compile("sgd", "sparse_categorical_crossentropy", ["acc"], weighted_metrics=["acc"])
        more = {"class_weight": {0: 1.0, 1: 3.0}, "validation_data": (X[:6], labels[:6]), "batch_size": 4}
        found.append([*model.fit(X, labels, verbose=0, shuffle=False, epochs=2, **more).history.values()])
    same(found[1], found[0])


def test_models_by_subclasses_and_datasets() -> None:
    found = []
    for count in (0, 2):
        with scope(count):
            model = Called()
            model.compile("sgd", "mse")
        rows = tf.data.Dataset.from_tensor_slices(({"rows": X}, Y)).batch(4)
        history = model.fit(rows.repeat(), epochs=2, steps_per_epoch=2, verbose=0)
        found.append([*history.history.values(), model.evaluate(rows, verbose=0), model.predict({"rows": X})])
    same(found[1], found[0])


def test_states_of_optimizers_are_one_for_all_replicas() -> None:
    with mirrored(2).scope():
        model = plain()
    came_to(model, batch_size=4)
    read = tf.keras.backend.get_session().run
    slot = model.optimizer.get_slot(model.trainable_weights[0], "m")
    assert read(model.optimizer.iterations) == 4
    first, second = read(list(slot.values))
    np.testing.assert_array_equal(first, second)
    assert slot.values[1].device.endswith("CPU:1")
    model.optimizer.lr = 0.0
    before = model.get_weights()
    model.train_on_batch(X, Y)
    same(model.get_weights(), before)


def test_weights_are_saved_as_those_of_one_device(tmp_path: Path) -> None:
    with mirrored(2).scope():
        model = plain()
    saved = tf.keras.callbacks.ModelCheckpoint(str(tmp_path / "weights"), save_weights_only=True)
    found = came_to(model, batch_size=4, callbacks=[saved])
    alone = plain()
    alone.load_weights(str(tmp_path / "weights"))
    same(alone.get_weights(), found[-4:])


def test_workers_fit_as_one_device_does_with_the_whole_batch(tmp_path: Path) -> None:
    alone = came_to(plain(), batch_size=4)

    def work(resolver: Any) -> Any:
        with tf.Graph().as_default():
            np.random.seed(resolver.task_id)
            strategy = multi_worker(resolver)
            with strategy.scope():
                model = plain()
            path = tmp_path / f"weights-{resolver.task_id}"
            saved = tf.keras.callbacks.ModelCheckpoint(str(path), save_weights_only=True)
            found = came_to(model, batch_size=4, callbacks=[saved])
            model.fit(X, Y, batch_size=2, verbose=0)
            return found, model.get_weights(), [p.name for p in tmp_path.glob(f"{path.name}*.index")]

    with cluster(2) as resolvers:
        (first, shuffled, saved), (second, other, none) = in_all(resolvers, work)
    same(first, alone)
    same(second, alone)
    # The order was drawn once, for both.
    same(other, shuffled)
    assert saved == ["weights-0.index"] and not none


def test_what_cannot_be_is_said_at_once() -> None:
    with mirrored(2).scope():
        model = plain()
    with pytest.raises(ValueError, match="1 examples cannot be shared by 2 replicas"):
        model.fit(X, Y, batch_size=7, verbose=0)
    with pytest.raises(ValueError, match="1 examples cannot be shared by 2 replicas"):
        model.train_on_batch(X[:1], Y[:1])
    outside = tf.keras.Sequential([layers.Dense(2, input_shape=(6,))])
    with mirrored(2).scope(), pytest.raises(ValueError, match="was not created in the distribution strategy scope"):
        outside.compile("sgd", "mse")
    with mirrored(2).scope():
        inside = tf.keras.Sequential([layers.Dense(2, input_shape=(6,))])
        with pytest.raises(NotImplementedError, match="give it to `compile`"):
            tf.keras.metrics.Mean()(1.0)
        with pytest.raises(NotImplementedError, match="keeps states between batches"):
            tf.keras.Sequential([layers.LSTM(2, stateful=True, batch_input_shape=(4, 3, 2))]).compile("sgd", "mse")
    with pytest.raises(ValueError, match="call `compile` in that scope"):
        inside.compile("sgd", "mse")
    with cluster(2, ps=1) as (resolver, _):
        asynchronous = tf.distribute.experimental.ParameterServerStrategy(resolver)
        with (
            tf.Graph().as_default(),
            asynchronous.scope(),
            pytest.raises(NotImplementedError, match="do not train in step"),
        ):
            tf.keras.Sequential([layers.Dense(2, input_shape=(6,))]).compile("sgd", "mse")
