"""Kernels of the string family: importing this package registers them."""
