"""Variables made where a loop, condition or function is traced are the outer graph's, as in TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import dtfctl.runtime as tf


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_variable_made_in_a_loop_has_the_outer_scope_and_is_trained(use_resource: bool) -> None:
    with tf.Graph().as_default() as graph:
        with tf.variable_scope("outer"), tf.device("/job:ps/task:0"):

            def body(i: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                with tf.variable_scope("inner", reuse=tf.AUTO_REUSE):
                    w = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0), use_resource=use_resource)
                return i + 1, total * w

            _, total = tf.while_loop(lambda i, _: i < 4, body, (0, 1.0))
        (w,) = tf.trainable_variables()
        assert (w.name, w.graph, w.device) == ("outer/inner/w:0", graph, "/job:ps/task:0")
        assert tf.global_variables() == [w]
        (gradient,) = tf.gradients(total, [w])
        for op in graph.get_operations():
            op._set_device("")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run([total, gradient]) == [81.0, 108.0]


def test_a_variable_made_in_a_branch_outlives_it() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [])

        def branch() -> tf.Tensor:
            return x * tf.get_variable("scale", initializer=2.0)

        chosen = tf.cond(x > 0, branch, lambda: x)
        with tf.variable_scope("", reuse=True):
            scale = tf.get_variable("scale")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(scale.assign(5.0))
            assert [session.run(chosen, {x: value}) for value in (3.0, -3.0)] == [15.0, -3.0]


def test_init_scope_leaves_bodies_and_control_dependencies() -> None:
    with tf.Graph().as_default() as graph:
        first = tf.no_op()
        made = []

        def body(i: tf.Tensor) -> tf.Tensor:
            with tf.name_scope("here"), tf.init_scope():
                made.append(tf.constant(1, name="one"))
            return i + 1

        with tf.control_dependencies([first]), tf.init_scope():
            assert tf.identity(1).op.control_inputs == []
        tf.while_loop(lambda i: i < 2, body, [0])
        assert made[0].graph is graph
        assert made[0].name == "here/one:0"


def test_dynamic_rnn_names_its_weights_as_tensorflow_does() -> None:
    with tf.Graph().as_default():
        inputs = tf.placeholder(tf.float32, [None, 3, 2])
        lengths = tf.placeholder(tf.int32, [None])
        outputs, state = tf.nn.dynamic_rnn(tf.nn.rnn_cell.LSTMCell(4), inputs, lengths, dtype=tf.float32)
        assert [v.name for v in tf.trainable_variables()] == ["rnn/lstm_cell/kernel:0", "rnn/lstm_cell/bias:0"]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            feed = {inputs: np.ones([2, 3, 2], np.float32), lengths: [3, 1]}
            out, last = session.run([outputs, state], feed)
        assert np.all(out[1, 1:] == 0)
        np.testing.assert_allclose(last.h, [out[0, 2], out[1, 0]], rtol=1e-6)
