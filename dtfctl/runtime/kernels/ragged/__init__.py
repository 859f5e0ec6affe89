"""Kernels of the ragged family: importing this package registers them."""

from dtfctl.runtime.kernels.ragged import basic, composite, variant
from dtfctl.runtime.kernels.sparse import cross, transform

__all__ = ["basic", "composite", "cross", "transform", "variant"]
