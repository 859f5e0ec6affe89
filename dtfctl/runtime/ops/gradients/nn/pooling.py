"""Gradients of pooling and of its gradients."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops.gradients.common import attrs_of, zeros_like

_POOL = ("ksize", "strides", "padding", "explicit_paddings", "data_format")


@register_gradient("MaxPoolV2")
def _max_pool_v2(op: Operation, grad: Tensor) -> Any:
    x, ksize, strides = op.inputs
    dx = apply_op(
        "MaxPoolGradV2",
        orig_input=x,
        orig_output=op.outputs[0],
        grad=grad,
        ksize=ksize,
        strides=strides,
        **attrs_of(op, "padding", "data_format"),
    )
    return dx, None, None


def _pool_grad_grads(op: Operation, forward: str, grad: Tensor) -> Any:
    names = ("ksize", "strides", "padding", "data_format")
    x, y = op.inputs[0], op.inputs[1]
    second = apply_op(forward, orig_input=x, orig_output=y, grad=grad, **attrs_of(op, *names))
    return zeros_like(x), zeros_like(y), second


@register_gradient("MaxPoolGrad", "MaxPool3DGrad")
def _max_pool_grad(op: Operation, grad: Tensor) -> Any:
    return _pool_grad_grads(op, f"{op.type}Grad", grad)


@register_gradient("MaxPoolGradGrad", "MaxPool3DGradGrad")
def _max_pool_grad_grad(op: Operation, grad: Tensor) -> Any:
    return _pool_grad_grads(op, op.type[: -len("Grad")], grad)


@register_gradient("MaxPoolGradV2")
def _max_pool_grad_v2(op: Operation, grad: Tensor) -> Any:
    x, y, _, ksize, strides = op.inputs
    second = apply_op(
        "MaxPoolGradGradV2",
        orig_input=x,
        orig_output=y,
        grad=grad,
        ksize=ksize,
        strides=strides,
        **attrs_of(op, "padding", "data_format"),
    )
    return zeros_like(x), zeros_like(y), second, None, None
