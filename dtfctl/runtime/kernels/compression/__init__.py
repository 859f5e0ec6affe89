"""Kernels of the compression family: importing this package registers them."""

from dtfctl.runtime.kernels.compression import transfer

__all__ = ["transfer"]
