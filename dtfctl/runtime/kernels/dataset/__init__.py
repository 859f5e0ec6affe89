"""Kernels of the dataset family."""

from dtfctl.runtime.kernels.dataset import (  # noqa: F401
    batching,
    buffering,
    examples,
    files,
    interleave,
    iterator,
    mapping,
    multi_device,
    optional,
    parallel,
    passing,
    selecting,
    sequencing,
    shuffle,
    sources,
    terminal,
)
