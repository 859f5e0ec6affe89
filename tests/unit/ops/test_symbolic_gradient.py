"""Gradients of functions that came without a gradient function: the server differentiates their bodies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import graph_pb2


def _imported(build: Any, *shapes: tuple[int, ...]) -> tuple[Any, list[Any]]:
    """A call of a function whose Python program is gone, and its arguments: placeholders."""
    with tf.Graph().as_default() as first:
        xs = [tf.placeholder(tf.float32, s, name=f"x{i}") for i, s in enumerate(shapes)]
        tf.identity(tf.function(build)(*xs), name="y")
    proto = first.as_graph_def()
    tf.import_graph_def(proto, name="")
    graph = tf.get_default_graph()
    return graph.get_tensor_by_name("y:0"), [graph.get_tensor_by_name(f"x{i}:0") for i in range(len(shapes))]


def test_a_body_is_differentiated() -> None:
    with tf.Graph().as_default():
        y, (x,) = _imported(lambda v: tf.square(tf.square(v)), ())
        (dx,) = tf.gradients(y, [x])
        assert "SymbolicGradient" in {op.type for op in tf.get_default_graph().get_operations()}
        with tf.Session() as sess:
            assert sess.run([y, dx], {x: 3.0}) == [81.0, 108.0]


def test_gradients_reach_through_calls_inside_and_add_up() -> None:
    inner = tf.function(lambda a, b: a * b + a)

    with tf.Graph().as_default():
        y, (a, b) = _imported(lambda a, b: tf.reduce_sum(inner(a, b) * tf.exp(b)) + a[0], (2,), (2,))
        da, db = tf.gradients(y, [a, b])
        feed = {a: [2.0, 3.0], b: [0.0, 1.0]}
        with tf.Session() as sess:
            got_a, got_b = sess.run([da, db], feed)
    e = np.exp(np.float32([0, 1]))
    # y = sum((a b + a) e^b) + a_0
    np.testing.assert_allclose(got_a, (np.float32([0, 1]) + 1) * e + [1, 0], rtol=1e-6)
    np.testing.assert_allclose(got_b, np.float32([2, 3]) * e + np.float32([2, 6]) * e, rtol=1e-6)


def test_an_argument_without_use_and_one_returned_as_it_is() -> None:
    f = graph_pb2.FunctionDef()
    f.signature.name = "swap"
    for arg in ("used", "unused"):
        f.signature.input_arg.add(name=arg, type=1)
    f.signature.output_arg.add(name="same", type=1)
    f.ret["same"] = "used"
    with tf.Graph().as_default() as graph:
        graph.library.functions["swap"] = f
        dx, dy = tf.raw_ops.SymbolicGradient(
            input=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            Tout=[tf.float32, tf.float32],
            f=graph_pb2.NameAttrList(name="swap"),
        )
        with tf.Session() as sess:
            got = sess.run([dx, dy])
    np.testing.assert_array_equal(got[0], [5, 6])
    np.testing.assert_array_equal(got[1], [0, 0])


def test_a_body_with_an_op_without_gradient_is_an_error_with_its_name() -> None:
    with tf.Graph().as_default():
        y, (x,) = _imported(lambda v: tf.raw_ops.CropAndResizeGradImage(
            grads=v, boxes=[[0.0, 0.0, 1.0, 1.0]], box_ind=[0], image_size=[1, 2, 2, 1], T=tf.float32
        ), (1, 2, 2, 1))  # fmt: skip
        (dx,) = tf.gradients(y, [x])
        with tf.Session() as sess, pytest.raises(tf.errors.UnimplementedError, match="CropAndResizeGradImage"):
            sess.run(dx, {x: np.ones((1, 2, 2, 1))})
