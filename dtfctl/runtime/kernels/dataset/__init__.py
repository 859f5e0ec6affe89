"""Kernels of the dataset family."""

from dtfctl.runtime.kernels.dataset import (  # noqa: F401
    batching,
    buffering,
    files,
    interleave,
    iterator,
    mapping,
    optional,
    passing,
    selecting,
    sequencing,
    shuffle,
    sources,
    terminal,
)
