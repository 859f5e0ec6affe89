"""Kernels of the training family: importing this package registers them."""

from dtfctl.runtime.kernels.training import apply

__all__ = ["apply"]
