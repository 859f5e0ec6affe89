"""Gradients of activations and biases."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops.gradients.common import add, mul, neg, number_like, static_shape, sum_over, zeros_like


@register_gradient("LeakyReluGrad")
def _leaky_relu_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[1]
    return apply_op("LeakyReluGrad", gradients=grad, features=x, alpha=op.attr("alpha")), zeros_like(x)


def _where_negative(condition: Tensor, grad: Tensor, incoming: Tensor) -> Tensor:
    negative = apply_op("Less", x=condition, y=number_like(0, condition))
    return apply_op("SelectV2", condition=negative, t=mul(grad, incoming), e=zeros_like(condition))


@register_gradient("EluGrad")
def _elu_grad(op: Operation, grad: Tensor) -> Any:
    y = op.inputs[1]
    return apply_op("EluGrad", gradients=grad, outputs=y), _where_negative(y, grad, op.inputs[0])


@register_gradient("SeluGrad")
def _selu_grad(op: Operation, grad: Tensor) -> Any:
    y = op.inputs[1]
    return apply_op("SeluGrad", gradients=grad, outputs=y), _where_negative(y, grad, op.inputs[0])


@register_gradient("SoftplusGrad")
def _softplus_grad(op: Operation, grad: Tensor) -> Any:
    dy, x = op.inputs
    around = add(add(apply_op("Exp", x=neg(x)), number_like(2, x)), apply_op("Exp", x=x))
    second = apply_op("RealDiv", x=mul(grad, dy), y=around)
    return apply_op("SoftplusGrad", gradients=grad, features=x), second


@register_gradient("BiasAddGrad")
def _bias_add_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    if op.text_attr("data_format") == "NCHW":
        rank = x.shape.rank
        if rank is None:
            raise ValueError("The gradient of BiasAddGrad in NCHW needs an input of known rank")
        grad = apply_op("Reshape", tensor=grad, shape=constant([1, -1] + [1] * (rank - 2), dtypes.int32))
    return apply_op("BroadcastTo", input=grad, shape=static_shape(x))


@register_gradient("BiasAddV1")
def _bias_add_v1(op: Operation, grad: Tensor) -> Any:
    rank = op.inputs[0].shape.rank
    if rank is None:
        raise ValueError("The gradient of BiasAddV1 needs an input of known rank")
    return grad, sum_over(grad, list(range(rank - 1)))
