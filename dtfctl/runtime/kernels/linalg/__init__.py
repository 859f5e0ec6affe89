"""Kernels of the linalg family: importing this package registers them."""

from dtfctl.runtime.kernels.linalg import decompose, einsum, solve

__all__ = ["decompose", "einsum", "solve"]
