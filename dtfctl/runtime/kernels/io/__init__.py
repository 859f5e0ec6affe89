"""Kernels of the io family."""

from dtfctl.runtime.kernels.io import csv, numbers, save_restore  # noqa: F401
