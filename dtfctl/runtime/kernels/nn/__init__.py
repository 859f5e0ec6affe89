"""Kernels of the nn family: importing this package registers them."""
