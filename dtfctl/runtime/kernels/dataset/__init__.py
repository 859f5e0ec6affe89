"""Kernels of the dataset family: importing this package registers them."""
