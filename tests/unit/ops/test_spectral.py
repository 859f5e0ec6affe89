"""Real Fourier transforms of a length that is not the input's: it is cut, or filled up with zeros, as in TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

RNG = np.random.default_rng(5)
WAVES = RNG.standard_normal((3, 5, 6)).astype(np.float32)
SPECTRA = (RNG.standard_normal((3, 5, 4)) + 1j * RNG.standard_normal((3, 5, 4))).astype(np.complex64)


def run(function: Any, x: np.ndarray[Any, Any], length: list[int], known: bool) -> np.ndarray[Any, Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        if known:
            return session.run(function(tf.constant(x), length))
        value = tf.placeholder(x.dtype)
        size = tf.placeholder(tf.int32, [len(length)])
        return session.run(function(value, size), {value: x, size: length})


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("length", [4, 6, 9])
def test_one_dimension(length: int, known: bool) -> None:
    np.testing.assert_allclose(run(tf.signal.rfft, WAVES, [length], known), np.fft.rfft(WAVES, length), atol=1e-5)
    np.testing.assert_allclose(run(tf.signal.irfft, SPECTRA, [length], known), np.fft.irfft(SPECTRA, length), atol=1e-5)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("length", [[4, 8], [7, 3]])
def test_two_dimensions(length: list[int], known: bool) -> None:
    np.testing.assert_allclose(run(tf.signal.rfft2d, WAVES, length, known), np.fft.rfft2(WAVES, length), atol=1e-5)
    np.testing.assert_allclose(
        run(tf.signal.irfft2d, SPECTRA, length, known), np.fft.irfft2(SPECTRA, length), atol=1e-5
    )


def test_shapes_are_known() -> None:
    with tf.Graph().as_default():
        assert tf.signal.rfft(tf.placeholder(tf.float32, [None, 6]), [8]).shape.as_list() == [None, 5]
