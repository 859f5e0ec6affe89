"""Kernels of the ragged family: importing this package registers them."""

from dtfctl.runtime.kernels.ragged import basic, variant
from dtfctl.runtime.kernels.sparse import cross, transform

__all__ = ["basic", "cross", "transform", "variant"]
