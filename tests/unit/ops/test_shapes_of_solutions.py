"""Static shapes of solved systems: the matrix says how many rows there are, as TensorFlow infers them."""

from __future__ import annotations

from typing import Any

import pytest

import dtfctl.runtime as tf


@pytest.mark.parametrize(
    "matrix, rhs, triangular, general",
    [
        ([None, 3], [3, 1], [3, 1], [3, 1]),
        ([3, 3], [None, 1], [3, 1], [3, 1]),
        ([3, None], [None, 2], [3, 2], [3, 2]),
        (None, [3, 2], None, [3, 2]),
        ([3, 3], None, None, [3, None]),
        ([None, 3, 3], [2, 3, 1], [2, 3, 1], [2, 3, 1]),
    ],
)
def test_a_solution_has_the_rows_of_the_matrix(matrix: Any, rhs: Any, triangular: Any, general: Any) -> None:
    def known(tensor: tf.Tensor) -> Any:
        return None if tensor.shape.rank is None else tensor.shape.as_list()

    with tf.Graph().as_default():
        a, b = tf.placeholder(tf.float32, matrix), tf.placeholder(tf.float32, rhs)
        assert known(tf.matrix_triangular_solve(a, b)) == triangular
        assert known(tf.cholesky_solve(a, b)) == triangular
        assert known(tf.matrix_solve(a, b)) == general


def test_sizes_that_contradict_each_other_are_refused() -> None:
    with tf.Graph().as_default():
        a, b = tf.placeholder(tf.float32, [3, 3]), tf.placeholder(tf.float32, [2, 1])
        for solve in (tf.matrix_triangular_solve, tf.matrix_solve):
            with pytest.raises(ValueError):
                solve(a, b)
