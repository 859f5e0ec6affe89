"""What a step reads of a variable is what it held before the step's updates, where no edge says otherwise.

TensorFlow guarantees it of neither kind: with ref variables the fetched loss of the first program is one of two from
one session to another, as its updates write where reads still look. With resource variables it gives what is here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


def _run(fetches: Any, steps: int) -> list[Any]:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return [session.run(fetches) for _ in range(steps)]


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("terms", [3, 2500])
def test_a_loss_is_that_before_the_update_also_where_gradients_are_known_at_once(
    use_resource: bool, terms: int
) -> None:
    """The gradients of a linear loss depend on no read; in more than 2,000 nodes, too, which are several functions."""
    with tf.Graph().as_default():
        x = np.linspace(0.0, 1.0, 4, dtype=np.float32)
        w = tf.get_variable("w", [4], initializer=tf.constant_initializer(0.5), use_resource=use_resource)
        b = tf.get_variable("b", [4], initializer=tf.constant_initializer(0.1), use_resource=use_resource)
        loss = tf.reduce_sum(w * x + b)
        for _ in range(terms):
            loss = loss + 0.001
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        found = [value for value, _ in _run([loss, train], 4)]
    down = 0.1 * (float((x * x).sum()) + 4)
    np.testing.assert_allclose(found, [1.4 + terms * 0.001 - i * down for i in range(4)], rtol=1e-4)


@pytest.mark.parametrize("use_resource", [False, True])
def test_gradients_are_of_the_weights_before_any_of_them_is_assigned(use_resource: bool) -> None:
    """The last layer's update is ready before the first layer's gradient has read its weights."""
    with tf.Graph().as_default():
        x = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(4, 3)
        first, last = np.float32([[0.3, -0.2], [0.1, 0.4], [-0.5, 0.2]]), np.float32([[0.7], [-0.6]])
        a = tf.get_variable("a", initializer=first, use_resource=use_resource)
        z = tf.get_variable("z", initializer=last, use_resource=use_resource)
        loss = tf.reduce_sum(tf.matmul(tf.matmul(x, a), z))
        to_a, to_z = tf.gradients(loss, [a, z])
        updates = tf.group(z.assign(z - to_z), a.assign(a - to_a))
        found = _run([loss, updates], 3)
    for value, _ in found:
        np.testing.assert_allclose(value, (x @ first @ last).sum(), rtol=1e-4, atol=1e-6)
        to_first, to_last = x.T @ np.ones((4, 1), np.float32) @ last.T, (x @ first).T @ np.ones((4, 1), np.float32)
        first, last = first - to_first, last - to_last


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_rate_is_that_of_the_step_that_is_counted_in_the_same_run(use_resource: bool) -> None:
    with tf.Graph().as_default():
        count = tf.get_variable("step", initializer=np.int64(0), use_resource=use_resource, trainable=False)
        w = tf.get_variable("w", initializer=np.float32(10.0), use_resource=use_resource)
        rate = tf.cast(count, tf.float32) / 2.0
        new = count + 1
        train = tf.group(w.assign(w - rate * 1.0), [count.assign(new)])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = []
            for _ in range(4):
                session.run(train)
                found.append(float(session.run(w)))
    assert found == [10.0, 9.5, 8.5, 7.0]
