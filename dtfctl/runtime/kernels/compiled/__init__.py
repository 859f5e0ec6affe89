"""Loops that numba compiles, where it is installed."""
