"""Gradients of activations and biases."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops.gradients.common import number_like
from dtfctl.runtime.ops.gradients.nn.common import add, mul, neg, static_shape, sum_over, zeros_like


@register_gradient("Relu")
def _relu(op: Operation, grad: Tensor) -> Any:
    return apply_op("ReluGrad", gradients=grad, features=op.outputs[0])


@register_gradient("ReluGrad")
def _relu_grad(op: Operation, grad: Tensor) -> Any:
    return apply_op("ReluGrad", gradients=grad, features=op.inputs[1]), zeros_like(op.inputs[1])


@register_gradient("Relu6")
def _relu6(op: Operation, grad: Tensor) -> Any:
    return apply_op("Relu6Grad", gradients=grad, features=op.outputs[0])


@register_gradient("Relu6Grad")
def _relu6_grad(op: Operation, grad: Tensor) -> Any:
    return apply_op("Relu6Grad", gradients=grad, features=op.inputs[1]), zeros_like(op.inputs[1])


@register_gradient("LeakyRelu")
def _leaky_relu(op: Operation, grad: Tensor) -> Any:
    return apply_op("LeakyReluGrad", gradients=grad, features=op.inputs[0], alpha=op.attr("alpha"))


@register_gradient("LeakyReluGrad")
def _leaky_relu_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[1]
    return apply_op("LeakyReluGrad", gradients=grad, features=x, alpha=op.attr("alpha")), zeros_like(x)


@register_gradient("Elu")
def _elu(op: Operation, grad: Tensor) -> Any:
    return apply_op("EluGrad", gradients=grad, outputs=op.outputs[0])


def _where_negative(condition: Tensor, grad: Tensor, incoming: Tensor) -> Tensor:
    negative = apply_op("Less", x=condition, y=number_like(0, condition))
    return apply_op("SelectV2", condition=negative, t=mul(grad, incoming), e=zeros_like(condition))


@register_gradient("EluGrad")
def _elu_grad(op: Operation, grad: Tensor) -> Any:
    y = op.inputs[1]
    return apply_op("EluGrad", gradients=grad, outputs=y), _where_negative(y, grad, op.inputs[0])


@register_gradient("Selu")
def _selu(op: Operation, grad: Tensor) -> Any:
    return apply_op("SeluGrad", gradients=grad, outputs=op.outputs[0])


@register_gradient("SeluGrad")
def _selu_grad(op: Operation, grad: Tensor) -> Any:
    y = op.inputs[1]
    return apply_op("SeluGrad", gradients=grad, outputs=y), _where_negative(y, grad, op.inputs[0])


@register_gradient("Softplus")
def _softplus(op: Operation, grad: Tensor) -> Any:
    return mul(grad, apply_op("Sigmoid", x=op.inputs[0]))


@register_gradient("SoftplusGrad")
def _softplus_grad(op: Operation, grad: Tensor) -> Any:
    dy, x = op.inputs
    around = add(add(apply_op("Exp", x=neg(x)), number_like(2, x)), apply_op("Exp", x=x))
    second = apply_op("RealDiv", x=mul(grad, dy), y=around)
    return apply_op("SoftplusGrad", gradients=grad, features=x), second


@register_gradient("Softsign")
def _softsign(op: Operation, grad: Tensor) -> Any:
    return apply_op("SoftsignGrad", gradients=grad, features=op.inputs[0])


@register_gradient("BiasAdd")
def _bias_add(op: Operation, grad: Tensor) -> Any:
    return grad, apply_op("BiasAddGrad", out_backprop=grad, data_format=op.attr("data_format"))


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
