"""Kernels of the math family: importing this package registers them."""

from dtfctl.runtime.kernels.math import (
    binary,
    cast,
    clustering,
    compare,
    fft,
    gpu_segment,
    matmul,
    quantized,
    reduce,
    segment,
    sequence,
    special,
    unary,
)

__all__ = [
    "binary",
    "cast",
    "clustering",
    "compare",
    "fft",
    "gpu_segment",
    "matmul",
    "quantized",
    "reduce",
    "segment",
    "sequence",
    "special",
    "unary",
]
