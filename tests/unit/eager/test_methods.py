"""Methods of tapes and datasets that give arrays."""

from __future__ import annotations

import numpy as np
import pytest

import dtfctl.runtime as tf


def test_each_rows_derivatives_by_the_same_row() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.stack([x[:, 0] * x[:, 1], x[:, 0] + x[:, 1], x[:, 1] ** 2], axis=1)
    with pytest.raises(ValueError, match="as many rows"):
        tape.batch_jacobian(y[:1], x)
    by_row, whole = tape.batch_jacobian(y, x).numpy(), tape.jacobian(y, x).numpy()
    assert by_row.shape == (2, 3, 2)
    np.testing.assert_allclose(by_row, np.stack([whole[i, :, i] for i in range(2)]))


def test_elements_of_a_dataset_as_arrays() -> None:
    found = list(tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [[1.0], [2.0]]}).as_numpy_iterator())
    assert [(each["a"], each["b"].tolist()) for each in found] == [(1, [1.0]), (2, [2.0])]
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="eager"):
        tf.data.Dataset.range(1).as_numpy_iterator()
