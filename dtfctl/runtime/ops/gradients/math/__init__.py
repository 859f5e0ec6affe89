"""Gradients of the math family, those TensorFlow builds: importing this package registers them."""

from dtfctl.runtime.ops.gradients.math import binary, matrices, reductions, segments, spectral, unary

__all__ = ["binary", "matrices", "reductions", "segments", "spectral", "unary"]
