"""Layers and models: what is said of what is not there, masks, configurations, layers that are shared."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

layers = tf.keras.layers


@pytest.fixture(autouse=True)
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as opened:
        yield opened


def small() -> Any:
    return tf.keras.Sequential([layers.Dense(2, input_shape=(3,))])


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda: tf.keras.models.load_model("."), "tf.saved_model.load"),
        (lambda: small().save("model", signatures={}), "tf.saved_model.Builder"),
        (lambda: tf.keras.utils.get_file("a", "b"), "give its path"),
        (lambda: tf.keras.callbacks.ModelCheckpoint("m.h5", options=object()), "load_weights"),
        (lambda: tf.keras.callbacks.TensorBoard(write_grads=True), "tf.summary.FileWriter"),
        (lambda: small().compile("sgd", "mse", distribute=object()), "scope of a strategy"),
        (lambda: layers.Dense(2, partitions=3), "partitions"),
    ],
)
def test_what_is_not_supported_fails_at_once_and_says_what_to_do(call: Any, advice: str) -> None:
    with pytest.raises((NotImplementedError, AttributeError, TypeError), match=advice):
        call()


def test_hdf5_without_h5py_says_what_else_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    model = small()
    with pytest.raises(ImportError, match=r"pip install h5py.*save_format='tf'"):
        model.save_weights(str(tmp_path / "weights.h5"))
    assert not list(tmp_path.iterdir())
    model.save_weights(str(tmp_path / "weights"))
    saved = model.get_weights()
    model.set_weights([w + 1 for w in saved])
    model.load_weights(str(tmp_path / "weights"))
    for ours, theirs in zip(model.get_weights(), saved, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_masked_steps_change_nothing() -> None:
    x = np.array([[3, 4, 0, 0], [5, 6, 7, 0]])
    inputs = tf.keras.Input((None,), dtype="int32")
    embedded = layers.Embedding(8, 3, mask_zero=True)(inputs)
    model = tf.keras.Model(inputs, layers.LSTM(2)(embedded))
    short, whole = model.predict(x[:1, :2]), model.predict(x)
    # Products of other sizes may be summed up in another order.
    np.testing.assert_allclose(short[0], whole[0], rtol=1e-5, atol=1e-7)
    assert not np.allclose(whole[0], whole[1])


def test_a_mask_weighs_the_loss_and_the_metrics() -> None:
    model = tf.keras.Sequential([layers.Masking(0.0, input_shape=(3, 1)), layers.Activation("linear")])
    model.compile("sgd", "mse", metrics=["mae"])
    x = np.array([[[1.0], [2.0], [0.0]]])
    loss, mae = model.evaluate(x, np.array([[[1.0], [0.0], [100.0]]]), verbose=0)
    # The last step is masked: (0 + 4) over all three steps, and (0 + 2) over the two that count.
    assert loss == pytest.approx(4 / 3) and mae == pytest.approx(1.0)


def test_a_layer_that_passes_no_mask_on_says_so() -> None:
    masked = layers.Masking(0.0)(tf.keras.Input((3, 1)))
    with pytest.raises(TypeError, match="supports_masking = True"):
        layers.Conv1D(2, 1)(masked)


def test_configurations_make_the_same_again() -> None:
    made = [
        layers.Dense(4, "relu", kernel_regularizer="l2", name="d", input_shape=(5,)),
        layers.Conv2D(3, (2, 3), padding="same", dilation_rate=2, bias_initializer="ones"),
        layers.SeparableConv2D(3, 2, depth_multiplier=2),
        layers.ZeroPadding2D(((1, 0), (0, 2))),
        layers.LSTM(3, return_sequences=True, dropout=0.25, unit_forget_bias=False),
        layers.RNN([layers.GRUCell(2, reset_after=True), layers.LSTMCell(3)], return_state=True),
        layers.Bidirectional(layers.SimpleRNN(2)),
        layers.TimeDistributed(layers.Dense(2)),
        layers.BatchNormalization(axis=1, momentum=0.5),
    ]
    for layer in made:
        config = layer.get_config()
        again = type(layer).from_config(config)
        assert again.get_config() == config, type(layer).__name__


def test_a_model_comes_back_from_its_json() -> None:
    a, b = tf.keras.Input((3,), name="a"), tf.keras.Input((3,))
    shared = layers.Dense(2, name="shared")
    model = tf.keras.Model([a, b], layers.concatenate([shared(a), shared(b)]))
    again = tf.keras.models.model_from_json(model.to_json())
    again.set_weights(model.get_weights())
    x = [np.ones((2, 3)), np.arange(6.0).reshape(2, 3)]
    np.testing.assert_allclose(again.predict(x), model.predict(x))
    assert len(again.weights) == 2


def test_a_model_that_is_shared_still_has_its_first_input_and_output() -> None:
    x = tf.keras.Input((4,))
    model = tf.keras.Model(x, layers.Dense(2)(x))
    a, b = tf.keras.Input((4,)), tf.keras.Input((4,))
    outputs = [model(a), model(b)]
    inner = model.layers[-1]
    assert inner.output is model.output and inner.input is x
    assert inner.input_shape == model.input_shape == (None, 4) and model.output_shape == (None, 2)
    assert model.get_output_at(0) is model.output and model.get_output_at(2) is outputs[1]
    both = tf.keras.Model([a, b], outputs)
    assert both.input_shape == [(None, 4), (None, 4)]


def test_a_layer_called_with_several_shapes_has_no_shape_of_its_own() -> None:
    drop = layers.Dropout(0.5)
    drop(tf.keras.Input((4,)))
    drop(tf.keras.Input((3,)))
    with pytest.raises(AttributeError, match="get_output_at"):
        _ = drop.output_shape


def test_a_layer_may_have_an_attribute_is_placeholder_and_add_the_only_loss() -> None:
    class Loss(layers.Layer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.is_placeholder = True
            super().__init__()

        def call(self, inputs: Any) -> Any:
            x, decoded = inputs
            self.add_loss(tf.reduce_mean(tf.square(x - decoded)), inputs=inputs)
            return x

    x = tf.keras.Input((3,))
    model = tf.keras.Model(x, Loss()([x, layers.Dense(3, kernel_initializer="zeros")(x)]))
    model.compile("sgd", loss=None)
    assert model.evaluate(np.ones((4, 3)), verbose=0) == pytest.approx(1.0)


def test_layers_are_not_kept_by_their_calls() -> None:
    with tf.Graph().as_default():
        layer = layers.Dense(2)
        layer(tf.zeros([1, 3]))
        gone = weakref.ref(layer)
        del layer
    gc.collect()
    assert gone() is None


def test_layers_of_both_kinds_check_what_they_expect_of_inputs() -> None:
    assert tf.layers.InputSpec is layers.InputSpec
    for base in (tf.layers.Layer, layers.Layer):
        layer = base(name="mine")
        layer.input_spec = tf.layers.InputSpec(min_ndim=2, axes={-1: 4})
        layer(tf.zeros([3, 4]))
        with pytest.raises(ValueError, match=r"layer mine is incompatible.*value 4"):
            layer(tf.zeros([3, 5]))
        with pytest.raises(ValueError, match="min_ndim=2, found ndim=1"):
            layer(tf.zeros([4]))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: layers.Conv2D(4, 3, groups=0), "groups must be a positive integer"),
        (lambda: layers.Conv2D(5, 3, groups=2), "filters must be evenly divisible by the number of groups"),
        (lambda: layers.Conv2D(4, 3, groups=2)(tf.zeros([1, 8, 8, 3])), "input channels must be evenly divisible"),
        (lambda: layers.Conv2DTranspose(4, 3, output_padding=1), "Strides must be greater than output padding"),
        (lambda: tf.keras.metrics.Precision(1.5), "must be in"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(make: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: tf.keras.losses.Huber(label_smoothing=1.0), "Huber.*label_smoothing"),
        (lambda: tf.keras.losses.MeanSquaredError("none", "name", 3), "MeanSquaredError.*too many"),
        (lambda: tf.keras.metrics.Accuracy(k=3), "Accuracy.*'k'"),
        (lambda: small().evaluate(np.ones((1, 3)), what=1), "what"),
        (lambda: small().predict(np.ones((1, 3)), what=1), "what"),
    ],
)
def test_arguments_that_there_are_not_are_refused(make: Any, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        make()


def test_results_are_given_by_their_names() -> None:
    model = small()
    model.compile("sgd", "mse", metrics=["mae"])
    x, y = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)
    named, listed = model.evaluate(x, y, verbose=0, return_dict=True), model.evaluate(x, y, verbose=0)
    assert list(named) == model.metrics_names
    assert list(named.values()) == listed
    assert model.test_on_batch(x, y, return_dict=True) == pytest.approx(named)
    assert list(model.train_on_batch(x, y, return_dict=True)) == model.metrics_names
    alone = small()
    alone.compile("sgd", "mse")
    assert alone.evaluate(x, y, verbose=0, return_dict=True) == {"loss": alone.evaluate(x, y, verbose=0)}


def test_a_threshold_of_many_counts_for_each() -> None:
    metric = tf.keras.metrics.FalsePositives([0.1, 0.5, 0.9])
    update = metric.update_state([0.0, 0.0, 1.0], [0.3, 0.6, 0.95])
    session = tf.keras.backend.get_session()
    session.run([v.initializer for v in metric.weights])
    session.run(update)
    assert session.run(metric.result()).tolist() == [2, 1, 0]
