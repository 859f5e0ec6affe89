"""What gradients share: undoing a broadcast, numbers of a tensor's type, ops by a short name, shapes, attributes."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor

Dims = tuple[int | None, ...]


def reduce_to(x: Tensor, y: Tensor, gx: Tensor | None, gy: Tensor | None) -> list[Tensor | None]:
    """Sum gradients of a broadcast result back to the shapes of its arguments."""
    axes = _repeated_axes(x.shape.dims_or_none, y.shape.dims_or_none)
    if axes is not None:
        rank_x, rank_y = x.shape.rank or 0, y.shape.rank or 0
        return [
            _summed(gx, axes[0], x) if axes[0] or rank_x < rank_y else gx,
            _summed(gy, axes[1], y) if axes[1] or rank_y < rank_x else gy,
        ]
    sx, sy = apply_op("Shape", input=x), apply_op("Shape", input=y)
    ax, ay = apply_op_outputs("BroadcastGradientArgs", s0=sx, s1=sy)
    return [None if gx is None else sum_to(gx, ax, sx), None if gy is None else sum_to(gy, ay, sy)]


def _repeated_axes(x: Dims | None, y: Dims | None) -> tuple[list[int], list[int]] | None:
    """Find the axes of the result along which each argument was repeated; None where only a step knows."""
    if x is None or y is None:
        return None
    rank = max(len(x), len(y))
    repeated: tuple[list[int], list[int]] = ([], [])
    for axis, (a, b) in enumerate(zip((1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y)):
        if a == 1 != b:
            repeated[0].append(axis)
        elif b == 1 != a:
            repeated[1].append(axis)
        elif a is None or b is None:
            return None
    return repeated


def _summed(grad: Tensor | None, axes: list[int], like: Tensor) -> Tensor | None:
    if grad is None:
        return None
    shape = like.shape
    wanted = _known_shape(shape.known()) if shape.is_fully_defined() else apply_op("Shape", input=like)
    return sum_to(grad, constant(axes, dtypes.int32), wanted)


def _known_shape(dims: tuple[int, ...]) -> Tensor:
    return constant(list(dims), dtypes.int32, name="Shape")


def sum_to(grad: Tensor, axes: Tensor, shape: Tensor) -> Tensor:
    """Sum `grad` over `axes`, in `shape`."""
    return apply_op("Reshape", tensor=apply_op("Sum", input=grad, reduction_indices=axes), shape=shape)


def number_like(value: float, like: Tensor) -> Tensor:
    """Make a scalar of the type of `like`."""
    return constant(value, like.dtype.base_dtype)


def static_shape(tensor: Tensor, dtype: Any = dtypes.int32) -> Tensor:
    """Get the shape of a tensor: a constant when it is known, else computed."""
    dims = tensor.shape.dims_or_none
    if dims is not None and None not in dims:
        return constant(list(dims), dtype)
    return apply_op("Shape", input=tensor, out_type=dtype)


def mul(x: Any, y: Any) -> Tensor:
    return apply_op("Mul", x=x, y=y)


def add(x: Any, y: Any) -> Tensor:
    return apply_op("AddV2", x=x, y=y)


def sub(x: Any, y: Any) -> Tensor:
    return apply_op("Sub", x=x, y=y)


def neg(x: Any) -> Tensor:
    return apply_op("Neg", x=x)


def zeros_like(x: Tensor) -> Tensor:
    return apply_op("ZerosLike", x=x)


def sum_over(x: Any, axes: Any, keep_dims: bool = False) -> Tensor:
    return apply_op("Sum", input=x, reduction_indices=constant(axes, dtypes.int32), keep_dims=keep_dims)


def is_zeros(grad: Tensor) -> bool:
    return grad.op.type in ("Zeros", "ZerosLike")


def attrs_of(op: Operation, *names: str) -> dict[str, Any]:
    """Collect attributes to hand on, those the op has."""
    return {name: op.attr(name) for name in names if name in op.signature.attr_by_name}
