"""Kernels of the nn family: importing this package registers them."""

from dtfctl.runtime.kernels.nn import activations, bias, conv, depthwise, normalization, pooling, ranking, softmax

__all__ = ["activations", "bias", "conv", "depthwise", "normalization", "pooling", "ranking", "softmax"]
