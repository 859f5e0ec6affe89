"""Kernels of the math family: importing this package registers them."""
