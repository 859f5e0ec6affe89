"""Losses of scopes and of layers in them, and collections of variables in MetaGraphs, as TensorFlow has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


def test_a_layer_in_a_scope_with_a_regularizer_has_both_losses() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.ones([2, 5])
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE, regularizer=lambda w: 0.5 * tf.nn.l2_loss(w)):
            ones = {"kernel_initializer": tf.ones_initializer()}
            for _ in range(2):
                tf.layers.dense(x, 3, kernel_regularizer=tf.keras.regularizers.l2(0.1), name="a", **ones)
            tf.layers.Dense(2, bias_regularizer=tf.keras.regularizers.l1(1.0), name="b", **ones)(x)
            tf.layers.conv2d(
                tf.ones([1, 4, 4, 1]), 1, 2, use_bias=False, kernel_regularizer=tf.nn.l2_loss, name="c", **ones
            )
        losses = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
        session.run(tf.global_variables_initializer())
        found = dict(zip([loss.name for loss in losses], session.run(losses), strict=True))
    assert list(found) == [
        "net/a/kernel/Regularizer/mul:0",
        "net/a/kernel/Regularizer/mul_1:0",
        "net/a/bias/Regularizer/mul:0",
        "net/b/kernel/Regularizer/mul:0",
        "net/b/bias/Regularizer/mul:0",
        "net/b/bias/Regularizer/mul_1:0",
        "net/c/kernel/Regularizer/mul:0",
        "net/c/kernel/Regularizer/L2Loss_1:0",
    ]
    np.testing.assert_allclose([*found.values()], [3.75, 1.5, 0, 2.5, 0, 0, 1, 2], rtol=1e-6)


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_in_collections_of_a_program_are_tensors_when_they_are_imported(use_resource: bool) -> None:
    with tf.Graph().as_default():
        w = tf.get_variable("w", [2], initializer=tf.ones_initializer(), use_resource=use_resource)
        x = tf.placeholder(tf.float32, [], "x")
        for key, values in {"vars": [w], "mixed": [w, x, x.op], "numbers": [3], "texts": ["a"]}.items():
            for value in values:
                tf.add_to_collection(key, value)
        meta = tf.train.export_meta_graph()
    kinds = {key: meta.collection_def[key].WhichOneof("kind") for key in ("vars", "mixed", "numbers", "texts")}
    assert kinds == {"vars": "node_list", "mixed": "node_list", "numbers": "int64_list", "texts": "bytes_list"}
    assert [*meta.collection_def["mixed"].node_list.value] == ["w:0", "x:0", "x"]
    with tf.Graph().as_default():
        tf.train.import_meta_graph(meta)
        held: list[Any] = tf.get_collection("vars")
        assert [type(v) for v in held] == [tf.Tensor] and held[0].name == "w:0"
        assert [v.name for v in tf.get_collection("mixed")] == ["w:0", "x:0", "x"]
        if not use_resource:
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                assert session.run(held[0]).tolist() == [1, 1]


def test_a_cross_entropy_is_found_by_tensorflows_name() -> None:
    with tf.Graph().as_default() as graph:
        rows, steps = tf.ones([2, 4]) / 4, tf.ones([2, 3, 4]) / 4
        for x, name in ((rows, "softmax_cross_entropy_with_logits_sg"), (steps, "xent"), (rows, "named")):
            loss = tf.nn.softmax_cross_entropy_with_logits(labels=x, logits=x, name=name if "_" not in name else None)
            assert loss.op.name in (name, f"{name}/Reshape_2")
            assert graph.get_operation_by_name(name).type == "SoftmaxCrossEntropyWithLogits"
            assert graph.get_operation_by_name(f"{name}/labels_stop_gradient").type == "StopGradient"
