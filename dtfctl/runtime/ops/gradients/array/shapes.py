"""Gradients of what passes tensors on, of new shapes and of broadcasts."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops


@register_gradient("PreventGradient")
def _prevent(op: Operation, grad: Tensor) -> Any:
    raise LookupError(f"Gradient explicitly disabled. Reason: {op.text_attr('message')!r}")


@register_gradient("CheckNumerics")
def _check_numerics(op: Operation, grad: Tensor) -> Any:
    message = "Not a number (NaN) or infinity (Inf) values detected in gradient."
    return apply_op("CheckNumerics", tensor=grad, message=message)


@register_gradient("CheckNumericsV2")
def _check_numerics_v2(op: Operation, grad: Tensor) -> Any:
    message = "Not a number (NaN) or infinity (Inf) values detected in gradient."
    return apply_op("CheckNumericsV2", tensor=grad, message=message)


def _reshape_like(grad: Any, x: Tensor) -> Tensor:
    if isinstance(grad, IndexedSlices):
        grad = convert_to_tensor(grad)
    return apply_op("Reshape", tensor=grad, shape=array_ops.shape(x))


@register_gradient("Reshape", "ExpandDims")
def _reshape(op: Operation, grad: Any) -> Any:
    return [_reshape_like(grad, op.inputs[0]), None]


@register_gradient("Squeeze")
def _squeeze(op: Operation, grad: Any) -> Any:
    return _reshape_like(grad, op.inputs[0])


@register_gradient("Fill")
def _fill(op: Operation, grad: Tensor) -> Any:
    return [None, math_ops.reduce_sum(grad)]
