"""Kernels of the io family."""

from dtfctl.runtime.kernels.io import save_restore  # noqa: F401
