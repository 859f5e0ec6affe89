"""Which values of Python and numpy become tensors of a type that is asked for, as stock TensorFlow has it in graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (np.array([1.8, -2.5]), tf.int32, [1, -2]),
        (np.float32(1.8), tf.int32, 1),
        (np.array([-1, 300]), tf.uint8, [255, 44]),
        (np.array([1.8, 0.0]), tf.bool, [True, False]),
        (np.array([1 + 2j]), tf.float32, [1.0]),
        (np.array([True]), tf.float32, [1.0]),
    ],
)
def test_numbers_of_numpy_are_cut_to_fit(value: Any, dtype: Any, want: Any) -> None:
    with tf.Session() as session:
        for tensor in (tf.constant(value, dtype), tf.convert_to_tensor(value, dtype)):
            assert tensor.dtype == dtype
            assert session.run(tensor).tolist() == want


def test_numbers_of_numpy_beside_a_tensor_have_its_type() -> None:
    x = tf.constant([1, 2])
    with tf.Session() as session:
        assert session.run(x + np.array([1.5, 2.5])).tolist() == [2, 4]
        assert session.run(x * np.float64(1.5)).tolist() == [1, 2]
        assert session.run(tf.fill(np.array([2.0]), 7)).tolist() == [7, 7]
    assert tf.Variable(np.array([1.8]), dtype=tf.int32).dtype.base_dtype == tf.int32


@pytest.mark.parametrize(
    ("value", "dtype"), [([1.8], tf.int32), ([np.float32(1.8)], tf.int32), ([True], tf.int32), ([-1], tf.uint8)]
)
def test_numbers_of_python_are_not(value: Any, dtype: Any) -> None:
    with pytest.raises(TypeError):
        tf.constant(value, dtype)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            {"on_value": 1.0, "off_value": 0},
            "'float32'> of on_value does not match dtype <dtype: 'int32'> of off_value",
        ),
        ({"on_value": tf.float32, "dtype": tf.int32}, "of on_value does not match dtype parameter <dtype: 'int32'>"),
        ({"off_value": tf.float32, "dtype": tf.int32}, "of off_value does not match dtype parameter <dtype: 'int32'>"),
    ],
)
def test_values_of_one_hot_are_of_one_type(arguments: dict[str, Any], text: str) -> None:
    given = {name: tf.constant(1.0) if value is tf.float32 else value for name, value in arguments.items()}
    with pytest.raises(TypeError, match=text):
        tf.one_hot([1], 2, **given)
