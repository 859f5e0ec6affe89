"""Convolution of quantized images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from tests.support.interpreter import run_op

TYPES = {"Tinput": dtypes.quint8, "Tfilter": dtypes.quint8, "out_type": dtypes.qint32}


def convolve(x: Any, w: Any, ends: tuple[float, float, float, float], padding: str = "VALID", stride: int = 1) -> Any:
    """The values that the result stands for."""
    quantized, low, high = run_op(
        "QuantizedConv2D",
        x.astype(dtypes.quint8.np),
        w.astype(dtypes.quint8.np),
        *map(np.float32, ends),
        dtypes=TYPES,
        strides=[1, stride, stride, 1],
        padding=padding,
    )
    assert quantized.dtype == dtypes.qint32.np
    level = (np.float64(high) - np.float64(low)) / (2**32 - 1)
    return quantized.astype(np.float64) * level


def by_hand(x: Any, w: Any) -> Any:
    rows, columns = x.shape[1] - w.shape[0] + 1, x.shape[2] - w.shape[1] + 1
    out = np.zeros((1, rows, columns, w.shape[3]))
    for i in range(rows):
        for j in range(columns):
            patch = x[0, i : i + w.shape[0], j : j + w.shape[1]]
            out[0, i, j] = np.tensordot(patch, w, 3)
    return out


def test_values_are_those_of_the_numbers_that_are_stood_for() -> None:
    x, w = np.arange(1, 19).reshape(1, 2, 3, 3), np.arange(1, 37).reshape(2, 2, 3, 3)
    got = convolve(x, w, (0.0, 255.0, 0.0, 255.0))
    np.testing.assert_allclose(got, by_hand(x, w), rtol=1e-5)
    np.testing.assert_allclose(got.ravel(), [2271, 2367, 2463, 2901, 3033, 3165], rtol=1e-5)


def test_zero_stands_anywhere_in_the_range() -> None:
    x, w = np.arange(0, 250, 2)[:75].reshape(1, 5, 5, 3), np.arange(36).reshape(2, 2, 3, 3) * 7
    got = convolve(x, w, (-1.0, 3.0, -2.0, 0.5))
    zero_x, zero_w = np.round(255 / 4), np.round(2 * 255 / 2.5)
    want = by_hand(x - zero_x, w - zero_w) * (4 / 255) * (2.5 / 255)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_what_is_outside_the_image_stands_for_zero() -> None:
    x, w = np.arange(1, 19).reshape(1, 2, 3, 3), np.arange(1, 37).reshape(2, 2, 3, 3)
    got = convolve(x, w, (0.0, 255.0, 0.0, 255.0), "SAME", 2)
    np.testing.assert_allclose(got.ravel(), [2271, 2367, 2463, 1230, 1305, 1380], rtol=1e-5)


def test_depths_must_agree() -> None:
    with pytest.raises(InvalidArgumentError, match="same depth: 3 vs 2"):
        convolve(np.ones((1, 2, 2, 3)), np.ones((1, 1, 2, 1)), (0.0, 1.0, 0.0, 1.0))
