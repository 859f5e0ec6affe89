"""Kernels of the control family: importing this package registers them."""
