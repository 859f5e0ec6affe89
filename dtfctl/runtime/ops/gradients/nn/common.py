"""What gradients of the nn family share: ops by a short name, shapes and attributes."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor


def static_shape(tensor: Tensor, dtype: Any = dtypes.int32) -> Tensor:
    """The shape of a tensor: a constant when it is known, else computed."""
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
    """Attributes to hand on, those the op has."""
    return {name: op.attr(name) for name in names if name in op.signature.attr_by_name}
