"""Kernels of the collective family: importing this package registers them."""
