"""Kernels of the nn family: importing this package registers them."""

from dtfctl.runtime.kernels.nn import (
    activations,
    bias,
    conv,
    ctc,
    depthwise,
    fractional,
    fused_conv,
    gpu_conv,
    gpu_pooling,
    gpu_softmax,
    normalization,
    pooling,
    quantized_conv,
    ranking,
    recurrent,
    softmax,
)

__all__ = [
    "activations",
    "bias",
    "conv",
    "ctc",
    "depthwise",
    "fractional",
    "fused_conv",
    "gpu_conv",
    "gpu_pooling",
    "gpu_softmax",
    "normalization",
    "pooling",
    "quantized_conv",
    "ranking",
    "recurrent",
    "softmax",
]
