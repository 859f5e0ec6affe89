"""Kernels of the string family."""

from dtfctl.runtime.kernels.string import basic, hashing, regex, split, unicode  # noqa: F401
