"""Kernels of the data_flow family: importing this package registers them."""
