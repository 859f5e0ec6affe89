"""Cells of `contrib.rnn` and decoders with attention over lists, against NumPy."""

from __future__ import annotations

import copy
import unittest
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.contrib import legacy_seq2seq, rnn, seq2seq


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def test_the_cell_that_was_searched_for() -> None:
    rng = np.random.RandomState(1)
    x, c, m = (rng.randn(2, n).astype(np.float32) for n in (3, 4, 5))
    with tf.Graph().as_default(), tf.Session() as session:
        cell = rnn.NASCell(4, num_proj=5, use_bias=True)
        assert (cell.state_size, cell.output_size) == (tf.nn.rnn_cell.LSTMStateTuple(4, 5), 5)
        out, state = cell(tf.constant(x), tf.nn.rnn_cell.LSTMStateTuple(tf.constant(c), tf.constant(m)))
        names = ["recurrent_kernel", "kernel", "bias", "projection_weights"]
        assert [v.op.name for v in tf.global_variables()] == [f"nas_cell/{name}" for name in names]
        session.run(tf.global_variables_initializer())
        session.run(tf.global_variables()[2].assign(rng.randn(32)))
        (w, k, b, p), got, (new, _) = session.run([tf.global_variables(), out, state])
    a, g = np.split(m @ w + b, 8, 1), np.split(x @ k, 8, 1)
    r = lambda v: np.maximum(v, 0)  # noqa: E731
    y = [_sigmoid(g[0] + a[0]), r(g[1] + a[1]), _sigmoid(g[2] + a[2]), r(g[3] * a[3])]
    y += [np.tanh(g[4] + a[4]), _sigmoid(g[5] + a[5]), np.tanh(g[6] + a[6]), _sigmoid(g[7] + a[7])]
    held = np.tanh(np.tanh(y[0] * y[1]) + c) * np.tanh(y[2] + y[3])
    want = np.tanh(held * np.tanh(np.tanh(y[4] * y[5]) + _sigmoid(y[6] + y[7]))) @ p
    np.testing.assert_allclose(new, held, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_cell_of_convolutions_runs_over_pictures() -> None:
    """With kernels of one pixel each pixel is a cell of its own."""
    x = np.random.RandomState(2).randn(2, 3, 4, 4, 2).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        cell = rnn.Conv2DLSTMCell(input_shape=[4, 4, 2], output_channels=3, kernel_shape=[1, 1], skip_connection=True)
        outputs, last = tf.nn.dynamic_rnn(cell, tf.constant(x), dtype=tf.float32)
        assert outputs.shape.as_list() == [2, 3, 4, 4, 5]
        session.run(tf.global_variables_initializer())
        (kernel, bias), got, (c, h) = session.run([tf.global_variables(), outputs, last])
    assert kernel.shape == (1, 1, 5, 12)
    held, out = np.zeros((2, 4, 4, 3)), np.zeros((2, 4, 4, 3))
    for step in range(3):
        i, j, f, o = np.split(np.concatenate([x[:, step], out], -1) @ kernel[0, 0] + bias, 4, -1)
        held = _sigmoid(f + 1) * held + _sigmoid(i) * np.tanh(j)
        out = np.tanh(held) * _sigmoid(o)
        np.testing.assert_allclose(got[:, step], np.concatenate([out, x[:, step]], -1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(c, held, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(h, out, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="Invalid input_shape"):
        rnn.ConvLSTMCell(1, [4, 4, 2], 3, [1])


def test_a_decoder_looks_at_a_memory() -> None:
    rng = np.random.RandomState(3)
    memory, x = rng.randn(2, 4, 3).astype(np.float32), rng.randn(2, 2).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        cell = tf.nn.rnn_cell.BasicRNNCell(3)
        outputs, _ = legacy_seq2seq.attention_decoder(
            [tf.constant(x)] * 2, tf.zeros([2, 3]), memory, cell, output_size=5
        )
        session.run(tf.global_variables_initializer())
        values = {v.op.name.partition("/")[2]: session.run(v) for v in tf.global_variables()}
        got = session.run(outputs)
    state, looked = np.zeros((2, 3)), np.zeros((2, 3))
    for step in range(2):
        given = np.concatenate([x, looked], 1) @ values["kernel"] + values["bias"]
        own = np.concatenate([given, state], 1) @ values["basic_rnn_cell/kernel"]
        state = np.tanh(own + values["basic_rnn_cell/bias"])
        asked = state @ values["Attention_0/kernel"] + values["Attention_0/bias"]
        score = (values["AttnV_0"] * np.tanh(memory @ values["AttnW_0"][0, 0] + asked[:, None])).sum(2)
        weights = np.exp(score) / np.exp(score).sum(1, keepdims=True)
        looked = (weights[:, :, None] * memory).sum(1)
        kernel, bias = values["AttnOutputProjection/kernel"], values["AttnOutputProjection/bias"]
        want = np.concatenate([state, looked], 1) @ kernel + bias
        np.testing.assert_allclose(got[step], want, rtol=1e-5, atol=1e-5)


def test_buckets_share_their_variables() -> None:
    ids = np.random.RandomState(4).randint(0, 6, [3, 2])
    with tf.Graph().as_default(), tf.Session() as session:
        cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(4) for _ in range(2)])
        given = [tf.constant(row) for row in ids]
        feeds = tf.placeholder_with_default(False, [])

        def model(a: Any, b: Any, feed: Any = False) -> Any:
            return legacy_seq2seq.embedding_attention_seq2seq(a, b, cell, 6, 6, 3, feed_previous=feed)

        outputs, losses = legacy_seq2seq.model_with_buckets(
            given, given, given, [tf.ones([2])] * 3, [(1, 2), (3, 3)], model
        )
        count = len(tf.global_variables())
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            alone, _ = model(given, given)
            fed, _ = model(given, given, feeds)
        assert len(tf.global_variables()) == count
        assert [len(o) for o in outputs] == [2, 3]
        session.run(tf.global_variables_initializer())
        found, direct, mixed, loss = session.run([outputs[1], alone, fed, losses[1]])
        np.testing.assert_allclose(found, direct, rtol=1e-5)
        np.testing.assert_allclose(mixed, direct, rtol=1e-5)
        picked = [np.exp(o)[range(2), row] / np.exp(o).sum(1) for o, row in zip(direct, ids, strict=True)]
        assert loss == pytest.approx(-np.log(picked).mean(), rel=1e-4)
        greedy = session.run(fed, {feeds: True})
        np.testing.assert_allclose(greedy[0], direct[0], rtol=1e-5)
        with pytest.raises(ValueError, match="Length of targets"):
            legacy_seq2seq.model_with_buckets(given, given, given[:2], given, [(3, 3)], model)


def test_a_copy_of_a_built_cell_makes_its_own_variables() -> None:
    with tf.Graph().as_default():
        cell = tf.nn.rnn_cell.GRUCell(3)
        for scope, one in (("a", cell), ("b", copy.deepcopy(cell))):
            with tf.variable_scope(scope):
                one(tf.zeros([2, 4]), one.zero_state(2, tf.float32))
        with tf.variable_scope("c"):
            late = copy.deepcopy(cell)
            late(tf.zeros([2, 4]), late.zero_state(2, tf.float32))
        assert {v.op.name.split("/")[0] for v in tf.global_variables()} == {"a", "b", "c"}
        assert len(late.variables) == 4


def test_cells_within_others_begin_with_what_they_begin_with() -> None:
    """As TensorFlow's MultiRNNCell: an attention's first state is not zeros, nor of a size that is known."""
    with tf.Graph().as_default(), tf.Session() as session:
        memory = tf.placeholder_with_default(np.ones([2, 4, 3], np.float32), [2, None, 3])
        attention = seq2seq.LuongAttention(3, memory)
        first = tf.nn.rnn_cell.GRUCell(3)
        inner = seq2seq.AttentionWrapper(first, attention, initial_cell_state=tf.fill([2, 3], 5.0))
        begun = tf.nn.rnn_cell.MultiRNNCell([inner, tf.nn.rnn_cell.GRUCell(2)]).zero_state(2, tf.float32)
        assert isinstance(begun[0], seq2seq.AttentionWrapperState)
        session.run(tf.global_variables_initializer())
        found = session.run([begun[0].cell_state, begun[0].alignments, begun[1]])
        assert [v.tolist() for v in found] == [[[5.0] * 3] * 2, [[0.0] * 4] * 2, [[0.0] * 2] * 2]
        zeros = tf.nn.rnn_cell.RNNCell.zero_state(inner, 2, tf.float32)
        assert session.run(zeros.alignments).shape == (2, 4)


class _Placed(tf.test.TestCase):
    def test_where_there_is_no_gpu(self) -> None:
        with self.test_session() as session, tf.device("/gpu:0"):
            assert session.run(tf.constant(1) + tf.constant(2)) == 3


def test_a_tests_session_places_softly() -> None:
    result = unittest.TestResult()
    _Placed("test_where_there_is_no_gpu").run(result)
    # Its graph is the default one of whatever runs next in this process.
    tf.reset_default_graph()
    assert result.testsRun == 1 and result.wasSuccessful(), result.errors


def test_a_cell_hands_on_what_layers_take() -> None:
    class Doubling(tf.nn.rnn_cell.RNNCell):  # type: ignore[misc]
        state_size = output_size = 2

        def __init__(self, **kwargs: object) -> None:
            super().__init__(**kwargs)

        def call(self, inputs: tf.Tensor, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            out = inputs * tf.get_variable("w", [2]) + state
            return out, out

    with tf.Graph().as_default():
        first, again = Doubling(name="cell"), Doubling(name="cell", _reuse=True)
        x = tf.ones([1, 2])
        first(x, x), again(x, x), Doubling(_scope="other")(x, x)
        assert [v.name for v in tf.global_variables()] == ["cell/w:0", "other/w:0"]
        with pytest.raises(TypeError, match="not understood: shape"):
            Doubling(shape=[2])
