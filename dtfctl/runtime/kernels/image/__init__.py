"""Kernels of the image family: importing this package registers them."""
