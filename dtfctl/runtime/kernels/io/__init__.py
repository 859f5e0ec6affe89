"""Kernels of the io family: importing this package registers them."""
