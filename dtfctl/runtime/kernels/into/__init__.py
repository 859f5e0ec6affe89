"""Kernels that write into given arrays."""
