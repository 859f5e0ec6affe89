"""What gradients share: undoing a broadcast, and numbers of a tensor's type."""

from __future__ import annotations

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.shapes.indexing import broadcast_gradient_axes


def reduce_to(x: Tensor, y: Tensor, gx: Tensor | None, gy: Tensor | None) -> list[Tensor | None]:
    """Sum gradients of a broadcast result back to the shapes of its arguments."""
    a, b = x.shape, y.shape
    if a.is_fully_defined() and b.is_fully_defined():
        known_a, known_b = a.known(), b.known()
        if known_a == known_b:
            return [gx, gy]
        full = np.broadcast_shapes(known_a, known_b)
        rx, ry = broadcast_gradient_axes(known_a, known_b)
        return [
            gx if gx is None or known_a == full else sum_to(gx, constant(rx, dtypes.int32), array_ops.shape(x)),
            gy if gy is None or known_b == full else sum_to(gy, constant(ry, dtypes.int32), array_ops.shape(y)),
        ]
    sx, sy = apply_op("Shape", input=x), apply_op("Shape", input=y)
    ax, ay = apply_op_outputs("BroadcastGradientArgs", s0=sx, s1=sy)
    return [None if gx is None else sum_to(gx, ax, sx), None if gy is None else sum_to(gy, ay, sy)]


def sum_to(grad: Tensor, axes: Tensor, shape: Tensor) -> Tensor:
    """`grad` summed over `axes`, in `shape`."""
    return apply_op("Reshape", tensor=apply_op("Sum", input=grad, reduction_indices=axes), shape=shape)


def number_like(value: float, like: Tensor) -> Tensor:
    """A scalar of the type of `like`."""
    return constant(value, like.dtype.base_dtype)
