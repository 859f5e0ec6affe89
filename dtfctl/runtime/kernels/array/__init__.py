"""Kernels of the array family: importing this package registers them."""

from dtfctl.runtime.kernels.array import (
    diag,
    gather,
    gpu_gather,
    identity,
    join,
    patches,
    quantize,
    rearrange,
    search,
    shapes,
    slicing,
)

__all__ = [
    "diag",
    "gather",
    "gpu_gather",
    "identity",
    "join",
    "patches",
    "quantize",
    "rearrange",
    "search",
    "shapes",
    "slicing",
]
