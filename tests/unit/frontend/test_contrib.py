"""`dtfctl.contrib`: the names of variables that tf.contrib gave, and the values."""

from __future__ import annotations

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.contrib import framework, layers, rnn, training

X = np.linspace(-1, 1, 12).reshape(3, 4).astype(np.float32)


def test_fully_connected_and_layer_norm() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 4])
        ones = tf.ones_initializer()
        hidden = layers.fully_connected(x, 2, weights_initializer=ones, weights_regularizer=layers.l2_regularizer(0.5))
        straight = layers.fully_connected(x, 2, activation_fn=None, scope="out", biases_initializer=None)
        normal = layers.layer_norm(x)
        session.run(tf.global_variables_initializer())
        names = [
            "fully_connected/weights",
            "fully_connected/biases",
            "out/weights",
            "LayerNorm/beta",
            "LayerNorm/gamma",
        ]
        assert [v.op.name for v in tf.trainable_variables()] == names
        assert [v.op.name for v in framework.get_variables("out")] == ["out/weights"]
        assert len(framework.get_model_variables()) == 5
        values = session.run([hidden, straight, normal, tf.losses.get_regularization_loss()], {x: X})
        np.testing.assert_allclose(values[0], np.maximum(X.sum(1, keepdims=True), 0).repeat(2, 1), rtol=1e-5)
        assert values[1].shape == (3, 2)
        centred = X - X.mean(1, keepdims=True)
        np.testing.assert_allclose(values[2], centred / X.std(1, keepdims=True), rtol=1e-4)
        assert values[3] == pytest.approx(2.0)


def test_convolution_pooling_and_cells() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        picture = tf.reshape(tf.range(32.0), [2, 4, 4, 1])
        conv = layers.conv2d(picture, 3, 3, normalizer_fn=layers.layer_norm, scope="first")
        flat = layers.flatten(layers.max_pool2d(conv, 2))
        outputs, _ = tf.nn.dynamic_rnn(
            rnn.OutputProjectionWrapper(rnn.BasicLSTMCell(3), 2), tf.ones([2, 3, 2]), dtype=tf.float32
        )
        session.run(tf.global_variables_initializer())
        assert [v.op.name for v in framework.get_variables("first")] == [
            "first/weights",
            "first/LayerNorm/beta",
            "first/LayerNorm/gamma",
        ]
        assert session.run(flat).shape == (2, 12)
        assert session.run(outputs).shape == (2, 3, 2)
        chosen = framework.get_variables_to_restore(exclude=["rnn"])
        assert {v.op.name.split("/")[0] for v in chosen} == {"first"}


def test_hyperparameters_keep_their_types() -> None:
    params = training.HParams(rate=0.1, units=[3, 4], name="net", deep=True)
    assert params.parse("rate=1,units=[5,6,7],deep=false").values() == {
        "rate": 1.0,
        "units": [5, 6, 7],
        "name": "net",
        "deep": False,
    }
    assert params.override_from_dict({"name": "x"}).get("name") == "x" and "rate" in params
    assert training.HParams(a=1).parse_json('{"a": 2}').to_json() == '{"a": 2}'
    with pytest.raises(ValueError, match="Unknown hyperparameter"):
        params.parse("speed=1")
    with pytest.raises(ValueError, match="Could not parse hparam 'rate'"):
        params.parse("rate=fast")
    assert tf.contrib.training.HParams is training.HParams


def test_collections_devices_and_charges_are_as_asked_for() -> None:
    with tf.Graph().as_default():
        x = tf.ones([2, 3])
        out = layers.fully_connected(x, 4, variables_collections={"weights": ["mine"]}, outputs_collections="ends")
        assert [v.op.name for v in tf.get_collection("mine")] == ["fully_connected/weights"]
        assert len(tf.global_variables()) == 2
        assert tf.get_collection("ends") == [out]
        assert "CPU:0" in framework.variable("v", [2], device="/cpu:0").device
        layer = tf.layers.Layer(name="same", activity_regularizer=tf.reduce_sum)
        layer(x)
        (charge,) = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        with tf.Session() as session:
            assert session.run(charge) == 6.0


def test_a_cell_need_not_call_the_constructor_of_cells() -> None:
    class Plain(tf.nn.rnn_cell.RNNCell):
        def __init__(self) -> None:
            self.factor = 2.0

        state_size = output_size = 3

        def call(self, inputs, state):
            out = tf.matmul(inputs + state, tf.get_variable("w", [3, 3])) * self.factor
            return out, out

    with tf.Graph().as_default():
        cell = Plain()
        outputs, _ = tf.nn.static_rnn(cell, [tf.ones([2, 3])] * 2, dtype=tf.float32)
        assert [v.op.name for v in cell.variables] == ["rnn/plain/w"]
        assert len(outputs) == 2


def test_no_gradient_flows_through_functions_of_python() -> None:
    """As in TensorFlow through `py_func` in silence; through `py_function`, where TensorFlow follows it, an error."""
    with tf.Graph().as_default():
        x = tf.constant([1.0, 2.0])
        assert tf.gradients(tf.py_func(lambda a: a * 2, [x], tf.float32), x) == [None]
        with pytest.raises(LookupError, match="EagerPyFunc"):
            tf.gradients(tf.py_function(lambda a: a.numpy() * 2, [x], tf.float32), x)


def test_normalized_and_stacked_cells() -> None:
    x = np.linspace(-1, 1, 2 * 3 * 4).reshape(2, 3, 4).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        cell = rnn.LayerNormBasicLSTMCell(5, norm_gain=0.5, norm_shift=0.25)
        out, state = cell(tf.constant(x[:, 0]), cell.zero_state(2, tf.float32))
        again, _ = cell(tf.constant(x[:, 1]), state)
        names = {v.op.name: v for v in tf.trainable_variables()}
        assert set(names) == {"layer_norm_basic_lstm_cell/kernel"} | {
            f"layer_norm_basic_lstm_cell/{gate}/{part}"
            for gate in ("input", "transform", "forget", "output", "state")
            for part in ("gamma", "beta")
        }
        session.run(tf.global_variables_initializer())
        kernel = session.run(names["layer_norm_basic_lstm_cell/kernel"])
        found, new, later = session.run([out, state, again])
        assert later.shape == (2, 5)

    def norm(v: np.ndarray) -> np.ndarray:
        spread = np.sqrt(v.var(1, keepdims=True) + 1e-12)
        return (v - v.mean(1, keepdims=True)) / spread * 0.5 + 0.25

    def sigmoid(v: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-v))

    i, j, _, o = map(norm, np.split(x[:, 0] @ kernel[:4], 4, axis=1))
    c = norm(sigmoid(i) * np.tanh(j))
    np.testing.assert_allclose(new.c, c, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found, np.tanh(c) * sigmoid(o), rtol=1e-4, atol=1e-5)
    with tf.Graph().as_default(), tf.Session() as session:
        layers_of = [[rnn.InputProjectionWrapper(rnn.GRUCell(3), 2) for _ in range(2)] for _ in range(2)]
        outputs, forwards, backwards = rnn.stack_bidirectional_dynamic_rnn(
            *layers_of, tf.constant(x), dtype=tf.float32, sequence_length=[3, 1]
        )
        session.run(tf.global_variables_initializer())
        value, last, first = session.run([outputs, forwards[-1], backwards[-1]])
        assert value.shape == (2, 3, 6) and len(forwards) == len(backwards) == 2
        np.testing.assert_allclose(value[:, :, :3][[0, 1], [2, 0]], last, rtol=1e-6)
        np.testing.assert_allclose(value[:, 0, 3:], first, rtol=1e-6)
        assert not value[1, 1:].any()
        assert {v.op.name.split("/")[1] for v in tf.trainable_variables()} == {"cell_0", "cell_1"}
        with pytest.raises(ValueError, match="same depth"):
            rnn.stack_bidirectional_dynamic_rnn([], [], tf.constant(x))
