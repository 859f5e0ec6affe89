"""Kernels of the dataset family."""

from dtfctl.runtime.kernels.dataset import (  # noqa: F401
    batching,
    files,
    interleave,
    iterator,
    optional,
    shuffle,
    sources,
    terminal,
    transforms,
)
