"""tf.concat of one value: the arguments in TensorFlow 0's order are refused."""

from __future__ import annotations

import pytest

import dtfctl.runtime as tf


def test_an_axis_that_is_none_is_refused_for_one_value_too() -> None:
    with tf.Graph().as_default():
        a, b = tf.zeros([2, 3]), tf.zeros([2, 3])
        for values, axis in ((1, [a, b]), (a, [0, 1])):
            with pytest.raises(ValueError, match="rank 0"):
                tf.concat(values, axis)
        assert tf.concat([a], 1).shape.as_list() == [2, 3]
