"""Kernels of the linalg family: importing this package registers them."""
