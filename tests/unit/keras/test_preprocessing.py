"""Sequences of several lengths as one array; the values are what TensorFlow 2.21's legacy Keras gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({}, [[0, 1, 2], [3, 4, 5], [0, 0, 0]]),
        ({"maxlen": 2}, [[1, 2], [4, 5], [0, 0]]),
        ({"maxlen": 2, "truncating": "post"}, [[1, 2], [3, 4], [0, 0]]),
        ({"maxlen": 4, "padding": "post", "value": 9}, [[1, 2, 9, 9], [3, 4, 5, 9], [9, 9, 9, 9]]),
    ],
)
def test_sequences_are_filled_up_and_cut(options: Any, wanted: Any) -> None:
    have = tf.keras.preprocessing.sequence.pad_sequences([[1, 2], [3, 4, 5], []], **options)
    assert have.tolist() == wanted and have.dtype == np.int32


def test_elements_keep_their_shape() -> None:
    have = tf.keras.preprocessing.sequence.pad_sequences([np.ones((1, 2)), np.ones((2, 2))], dtype="float32")
    assert have.tolist() == [[[0, 0], [1, 1]], [[1, 1], [1, 1]]]


@pytest.mark.parametrize(
    ("sequences", "options", "said"),
    [
        ([1, 2], {}, "non-iterable: 1"),
        ([[1]], {"padding": "both"}, "both"),
        ([[1]], {"truncating": "no"}, "no"),
        ([[[1, 2]], [[1]]], {}, "position 1"),
        ([[1]], {"value": "end"}, "dtype=object"),
    ],
)
def test_what_is_no_sequence_is_said(sequences: Any, options: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tf.keras.preprocessing.sequence.pad_sequences(sequences, **options)
