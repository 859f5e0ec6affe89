"""A loop's condition runs with the body that gives what it asks about."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_a_loop_that_ends_by_what_its_body_gives(limit: int) -> None:
    """Conditions of several kinds, which run with the body: of numbers, of shapes, of what nothing else takes."""
    n, x = tf.constant(0), tf.constant(np.ones(3, np.float32))
    conditions: list[Callable[..., Any]] = [
        lambda n, x: n < limit,
        lambda n, x: tf.logical_and(n < limit, tf.reduce_sum(x) < 1e6),
        lambda n, x: tf.shape(tf.range(n))[0] < limit,
        lambda n, x: tf.cond(n < 3, lambda: n < limit, lambda: n + 1 < limit + 1),
    ]
    made = [tf.while_loop(condition, lambda n, x: (n + 1, x * 2.0), (n, x)) for condition in conditions]
    gradients = [tf.gradients(values, x)[0] for _, values in made]
    with tf.Session() as session:
        for _ in range(7):
            for (count, values), gradient in session.run(list(zip(made, gradients))):
                assert count == limit
                np.testing.assert_array_equal(values, np.full(3, 2.0**limit))
                np.testing.assert_array_equal(gradient, np.full(3, 2.0**limit))


def test_a_condition_that_reads_what_the_body_has_assigned() -> None:
    v = tf.get_variable("v", initializer=0, use_resource=True)

    def body(n: Any) -> Any:
        with tf.control_dependencies([v.assign_add(1)]):
            return n + 1

    count = tf.while_loop(lambda n: v.read_value() < 4, body, [tf.constant(0)])
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(count) == 4 and session.run(v) == 4 and session.run(count) == 0


def test_what_is_wrong_in_a_condition_is_said_with_its_name() -> None:
    x = tf.placeholder(tf.float32, [None])
    with tf.name_scope("asked"):
        loop = tf.while_loop(
            lambda n, x: tf.reshape(x[: n + 1], [1], name="one")[0] < 9.0, lambda n, x: (n + 1, x), (0, x)
        )
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="one"):
        session.run(loop, {x: [1.0, 2.0]})
