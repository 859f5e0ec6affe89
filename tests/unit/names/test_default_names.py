"""Results of functions without a name have TensorFlow's names: programs look them up, and checkpoints hold them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


def floats(*shape: Any) -> Any:
    return tf.placeholder(tf.float32, shape or (None, 4))


def ints(*shape: Any) -> Any:
    return tf.placeholder(tf.int32, shape or (None,))


# As TensorFlow 2.21 names the results.
NAMES: dict[str, tuple[Callable[[], Any], str]] = {
    "lookup": (lambda: tf.nn.embedding_lookup(tf.get_variable("e", [9, 4]), ints()), "embedding_lookup/Identity"),
    "lookup in a resource": (
        lambda: tf.nn.embedding_lookup(tf.get_variable("e", [9, 4], use_resource=True), ints()),
        "embedding_lookup/Identity",
    ),
    "lookup of sparse ids": (
        lambda: tf.nn.embedding_lookup_sparse(
            tf.get_variable("e", [9, 4]), tf.sparse_placeholder(tf.int64, [3, 4]), None, combiner="mean"
        ),
        "embedding_lookup_sparse",
    ),
    "product of batches": (lambda: tf.matmul(floats(2, 3, 4), floats(2, 4, 3)), "MatMul"),
    "product by operator": (lambda: floats(3, 4) @ floats(4, 3), "matmul"),
    "logsumexp": (lambda: tf.reduce_logsumexp(floats(), 1), "ReduceLogSumExp"),
    "clip by norm": (lambda: tf.clip_by_norm(floats(), 5.0), "clip_by_norm"),
    "clip by global norm": (
        lambda: tf.clip_by_global_norm([floats(), floats()], 5.0)[0][1],
        "clip_by_global_norm/clip_by_global_norm/_1",
    ),
    "norm": (lambda: tf.norm(floats()), "norm/Squeeze"),
    "batch normalization": (
        lambda: tf.nn.batch_normalization(floats(), floats(4), floats(4), floats(4), floats(4), 1e-3),
        "batchnorm/add_1",
    ),
    "log sigmoid": (lambda: tf.log_sigmoid(floats()), "LogSigmoid"),
    "tuple": (lambda: tf.tuple([floats(), floats()])[1], "tuple/control_dependency_1"),
    "sigmoid loss": (
        lambda: tf.nn.sigmoid_cross_entropy_with_logits(labels=floats(), logits=floats()).op.inputs[0],
        "logistic_loss/sub",
    ),
    "range": (lambda: tf.range(5).op.inputs[1], "range/limit"),
    "large zeros": (lambda: tf.zeros([50, 300]).op.inputs[0], "zeros/shape_as_tensor"),
    "one less": (lambda: tf.nn.dropout(floats(), floats()).graph.get_tensor_by_name("sub:0"), "sub"),
    "noise of dropout": (
        lambda: tf.nn.dropout(floats(), 0.5).graph.get_tensor_by_name("dropout/random_uniform/RandomUniform:0"),
        "dropout/random_uniform/RandomUniform",
    ),
    "first state": (lambda: tf.nn.rnn_cell.GRUCell(3).zero_state(2, tf.float32), "GRUCellZeroState/zeros"),
    "step of a cell": (
        lambda: tf.nn.static_rnn(tf.nn.rnn_cell.BasicLSTMCell(3), [floats(2, 4)], dtype=tf.float32)[0][0],
        "rnn/basic_lstm_cell/Mul_2",
    ),
    "polynomial decay": (
        lambda: tf.train.polynomial_decay(0.1, tf.train.get_or_create_global_step(), 10),
        "PolynomialDecay",
    ),
    "inverse decay": (
        lambda: tf.train.inverse_time_decay(0.1, tf.train.get_or_create_global_step(), 10, 0.9),
        "InverseTimeDecay",
    ),
    "brightness": (lambda: tf.image.adjust_brightness(floats(8, 8, 3), 0.1), "adjust_brightness/Identity"),
    "mirrored": (lambda: tf.image.flip_left_right(floats(8, 8, 3)), "flip_left_right/ReverseV2"),
    "split strings": (lambda: tf.string_split(tf.constant(["a b"])).values, "StringSplit/StringSplit"),
    "sparse times dense": (
        lambda: tf.sparse_tensor_dense_matmul(tf.sparse_placeholder(tf.float32, [3, 4]), floats(4, 2)),
        "SparseTensorDenseMatMul/SparseTensorDenseMatMul",
    ),
    "pooled sequence": (lambda: tf.layers.max_pooling1d(floats(2, 8, 3), 2, 2), "max_pooling1d/Squeeze"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_result_has_tensorflow_s_name(case: str) -> None:
    make, name = NAMES[case]
    with tf.Graph().as_default():
        assert make().op.name == name


def test_cross_entropy_of_logits_whose_rank_is_not_known() -> None:
    """A program of convolutions and reshapes knows no rank while it is built."""
    logits = np.array([[1.0, 2.0, 4.0], [0.0, 0.0, 1.0]], np.float32)
    labels = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
        loss = tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x)
        (slope,) = tf.gradients(loss, x)
        flat, slopes = session.run([loss, slope], {x: logits, y: labels})
        deep = session.run(loss, {x: logits[:, None], y: labels[:, None]})
    e = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(flat, -np.log((e * labels).sum(1)), rtol=1e-5)
    np.testing.assert_allclose(slopes, e - labels, atol=1e-6)
    assert deep.shape == (2, 1)


@pytest.mark.parametrize(
    "layer",
    [
        lambda x, **kwargs: tf.layers.batch_normalization(x, **kwargs),
        lambda x, **kwargs: tf.layers.dense(x, 4, **kwargs),
    ],
)
def test_a_layer_without_a_name_reuses_the_first_of_its_kind(layer: Callable[..., Any]) -> None:
    with tf.Graph().as_default():
        layer(floats(2, 4))
        names = [v.name for v in tf.global_variables()]
        layer(floats(2, 4), reuse=True)
        assert [v.name for v in tf.global_variables()] == names


def test_a_norm_that_is_not_finite_makes_all_gradients_nan() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2])
        (clipped,), norm = tf.clip_by_global_norm([x], 1.0)
        assert np.isnan(session.run(clipped, {x: [np.inf, 1.0]})).all()
        np.testing.assert_allclose(session.run(clipped, {x: [3.0, 4.0]}), [0.6, 0.8], rtol=1e-6)
        np.testing.assert_allclose(session.run(norm, {x: [3.0, 4.0]}), 5.0)
