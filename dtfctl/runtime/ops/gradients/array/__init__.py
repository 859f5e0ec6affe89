"""Gradients of the array family, those TensorFlow builds: importing this package registers them."""

from dtfctl.runtime.ops.gradients.array import (
    diagonals,
    gathering,
    joining,
    rearranging,
    shapes,
    slicing,
)

__all__ = ["diagonals", "gathering", "joining", "rearranging", "shapes", "slicing"]
