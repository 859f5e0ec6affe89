"""Kernels of the sparse family: importing this package registers them."""
