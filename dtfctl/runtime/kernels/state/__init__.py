"""Kernels of the state family: importing this package registers them."""
