"""Random ops are numbered through the program, those in branches and loops among them."""

from __future__ import annotations

from typing import Any

import dtfctl.runtime as tf


def number(tensor: Any) -> int:
    """Which of the program's random ops made a tensor."""
    return int(tensor.op.get_attr("seed2"))


def test_random_ops_of_branches_and_loops_count() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        first = tf.random_uniform([])
        branch = tf.cond(tf.placeholder_with_default(True, []), lambda: tf.random_uniform([]), lambda: tf.zeros([]))
        between = tf.random_uniform([])
        loop = tf.while_loop(lambda i, x: i < 1, lambda i, x: (i + 1, tf.random_uniform([])), (0, tf.zeros([])))[1]
        last = tf.random_uniform([])
        assert [number(first), number(between), number(last)] == [0, 2, 4]
        # Ops of one number would draw the same.
        assert len(set(session.run([first, branch, between, loop, last]))) == 5
