"""Kernels of the sparse family: importing this package registers them."""

from dtfctl.runtime.kernels.sparse import combine, counts, cross, csr, dense, serialize, sets, transform

__all__ = ["combine", "counts", "cross", "csr", "dense", "serialize", "sets", "transform"]
