"""Kernels of the random family: importing this package registers them."""
