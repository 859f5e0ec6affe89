"""Integrals of densities, and their logarithms where they are too small for a float."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfctl.runtime import api as tf

# Where log(ndtr(x)) loses its digits: below, a series is used; above, -ndtr(-x).
_SEGMENTS = {"float64": (-20.0, 8.0), "float32": (-10.0, 5.0)}


def ndtr(x: Any, name: str = "ndtr") -> Any:
    """Return the integral of the normal density up to x."""
    with tf.name_scope(name, values=[x]):
        return _ndtr(tf.convert_to_tensor(x, name="x"))


def _ndtr(x: Any) -> Any:
    half_root = 0.5 * math.sqrt(2.0)
    w = x * half_root
    z = tf.abs(w)
    tail = tf.where_v2(tf.greater(w, 0.0), 2.0 - tf.erfc(z), tf.erfc(z))
    return 0.5 * tf.where_v2(tf.less(z, half_root), 1.0 + tf.erf(w), tail)


def log_ndtr(x: Any, series_order: int = 3, name: str = "log_ndtr") -> Any:
    """Return the logarithm of `ndtr`.

    Args:
        x: float32 or float64.
        series_order: terms of the asymptotic series for large negative x.
    """
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        lower, upper = (x.dtype.as_numpy_dtype(v) for v in _SEGMENTS[x.dtype.base_dtype.name])
        # The bounds keep the branches that are not chosen finite, for the gradient's sake.
        middle = tf.log(_ndtr(tf.maximum(x, lower)))
        low = _log_ndtr_series(tf.minimum(x, lower), series_order)
        return tf.where_v2(tf.greater(x, upper), -_ndtr(-x), tf.where_v2(tf.greater(x, lower), middle, low))


def _log_ndtr_series(x: Any, order: int) -> Any:
    square = tf.square(x)
    total, power = tf.ones_like(x), square
    for n in range(1, order + 1):
        factorial = float(np.prod(np.arange(2 * n - 1, 1, -2, dtype=np.float64)))
        total += (-1.0) ** n * factorial / power
        power *= square
    return -0.5 * square - tf.log(-x) - 0.5 * math.log(2.0 * math.pi) + tf.log(total)


def log_cdf_laplace(x: Any, name: str = "log_cdf_laplace") -> Any:
    """Return the logarithm of the integral of the standard Laplace density up to x."""
    with tf.name_scope(name, values=[x]):
        x = tf.convert_to_tensor(x, name="x")
        return tf.where_v2(x < 0.0, -math.log(2.0) + x, tf.log1p(-0.5 * tf.exp(-tf.abs(x))))
