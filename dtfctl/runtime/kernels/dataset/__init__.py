"""Kernels of the dataset family."""

from dtfctl.runtime.kernels.dataset import (  # noqa: F401
    batching,
    buffering,
    caching,
    examples,
    files,
    interleave,
    iterator,
    mapping,
    multi_device,
    optional,
    parallel,
    passing,
    placed,
    saving,
    selecting,
    sequencing,
    shuffle,
    sources,
    sql,
    terminal,
)
