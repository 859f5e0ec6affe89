"""Kernels of the training family: importing this package registers them."""
