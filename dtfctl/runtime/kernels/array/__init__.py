"""Kernels of the array family: importing this package registers them."""
