"""What attention refuses, and what masks leave of scores in short floats."""

from __future__ import annotations

import numpy as np
import pytest

from dtfctl import runtime as tf


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_first_position_that_sees_itself_only_gets_its_own_value(dtype: str) -> None:
    layer = tf.keras.layers.MultiHeadAttention(2, 4, dtype=dtype)
    steps = tf.constant(np.arange(12).reshape(1, 3, 4) / 12, dtype)
    outputs, weights = layer(steps, steps, use_causal_mask=True, return_attention_scores=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found, shares = session.run([outputs, weights])
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(shares[0, :, 0], [[1, 0, 0]] * 2)


def test_outputs_of_several_axes_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="one size"):
        tf.keras.layers.MultiHeadAttention(2, 4, output_shape=[3, 5])
