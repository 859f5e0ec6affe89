"""Gradients of pooling and of its gradients."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops.gradients.common import attrs_of, static_shape, zeros_like

_POOL = ("ksize", "strides", "padding", "explicit_paddings", "data_format")


@register_gradient("AvgPool", "AvgPool3D")
def _avg_pool(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    return apply_op(f"{op.type}Grad", orig_input_shape=static_shape(x), grad=grad, **attrs_of(op, *_POOL))


@register_gradient("AvgPoolGrad")
def _avg_pool_grad(op: Operation, grad: Tensor) -> Any:
    return None, apply_op("AvgPool", value=grad, **attrs_of(op, *_POOL))


@register_gradient("AvgPool3DGrad")
def _avg_pool_3d_grad(op: Operation, grad: Tensor) -> Any:
    return None, apply_op("AvgPool3D", input=grad, **attrs_of(op, *_POOL))


@register_gradient("MaxPool", "MaxPool3D")
def _max_pool(op: Operation, grad: Tensor) -> Any:
    return apply_op(
        f"{op.type}Grad", orig_input=op.inputs[0], orig_output=op.outputs[0], grad=grad, **attrs_of(op, *_POOL)
    )


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


@register_gradient("MaxPoolWithArgmax")
def _max_pool_with_argmax(op: Operation, grad: Tensor, _: Any) -> Any:
    return apply_op(
        "MaxPoolGradWithArgmax",
        input=op.inputs[0],
        grad=grad,
        argmax=op.outputs[1],
        **attrs_of(op, "ksize", "strides", "padding", "include_batch_in_index"),
    )


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


@register_gradient("FractionalMaxPool")
def _fractional_max_pool(op: Operation, grad: Tensor, rows: Any, columns: Any) -> Any:
    return apply_op(
        "FractionalMaxPoolGrad",
        orig_input=op.inputs[0],
        orig_output=op.outputs[0],
        out_backprop=grad,
        row_pooling_sequence=op.outputs[1],
        col_pooling_sequence=op.outputs[2],
        overlapping=op.attr("overlapping"),
    )


@register_gradient("FractionalAvgPool")
def _fractional_avg_pool(op: Operation, grad: Tensor, rows: Any, columns: Any) -> Any:
    return apply_op(
        "FractionalAvgPoolGrad",
        orig_input_tensor_shape=apply_op("Shape", input=op.inputs[0], out_type=dtypes.int64),
        out_backprop=grad,
        row_pooling_sequence=op.outputs[1],
        col_pooling_sequence=op.outputs[2],
        overlapping=op.attr("overlapping"),
    )
