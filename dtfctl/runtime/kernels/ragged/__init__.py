"""Kernels of the ragged family: all modules are imported when one of its ops is first looked up."""

# Some of its ops are computed there.
from dtfctl.runtime.kernels.sparse import cross, transform

__all__ = ["cross", "transform"]
