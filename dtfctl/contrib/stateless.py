"""`tf.contrib.stateless`: random numbers that the seed alone decides."""

from __future__ import annotations

from dtfctl.runtime.api.random import (
    stateless_multinomial,
    stateless_normal as stateless_random_normal,
    stateless_truncated_normal,
    stateless_uniform as stateless_random_uniform,
)

__all__ = [
    "stateless_multinomial",
    "stateless_random_normal",
    "stateless_random_uniform",
    "stateless_truncated_normal",
]
