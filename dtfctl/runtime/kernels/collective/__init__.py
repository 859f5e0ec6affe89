"""Kernels of the collective family: importing this package registers them."""

from dtfctl.runtime.kernels.collective import exchange, groups

__all__ = ["exchange", "groups"]
