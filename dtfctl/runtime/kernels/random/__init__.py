"""Kernels of the random family: importing this package registers them."""

from dtfctl.runtime.kernels.random import (
    binomial,
    candidates,
    index_shuffle,
    sampling,
    stateful_seeds,
    stateful_variable,
    stateless,
    truncated,
)

__all__ = [
    "binomial",
    "candidates",
    "index_shuffle",
    "sampling",
    "stateful_seeds",
    "stateful_variable",
    "stateless",
    "truncated",
]
