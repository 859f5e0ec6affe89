"""Kernels of the ragged family: importing this package registers them."""
