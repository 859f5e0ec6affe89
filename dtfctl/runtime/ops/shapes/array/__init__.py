"""Static shapes of the array family: importing this package registers them."""

from dtfctl.runtime.ops.shapes.array import (
    diagonals,
    gathering,
    identity,
    joining,
    rearranging,
    shapes,
    slicing,
)

__all__ = ["diagonals", "gathering", "identity", "joining", "rearranging", "shapes", "slicing"]
