"""Kernels of the random family: importing this package registers them."""

from dtfctl.runtime.kernels.random import sampling, stateful_seeds, stateful_variable, stateless

__all__ = ["sampling", "stateful_seeds", "stateful_variable", "stateless"]
