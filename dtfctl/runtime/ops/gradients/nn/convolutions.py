"""Gradients of convolutions and of their gradients."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops.gradients.common import attrs_of, static_shape

_CONV = ("strides", "padding", "explicit_paddings", "use_cudnn_on_gpu", "data_format", "dilations")


@register_gradient("Conv2D")
def _conv2d(op: Operation, grad: Tensor) -> Any:
    x, w = op.inputs
    attrs = attrs_of(op, *_CONV)
    return (
        apply_op("Conv2DBackpropInput", input_sizes=static_shape(x), filter=w, out_backprop=grad, **attrs),
        apply_op("Conv2DBackpropFilter", input=x, filter_sizes=static_shape(w), out_backprop=grad, **attrs),
    )


@register_gradient("Conv2DBackpropInput")
def _conv2d_backprop_input(op: Operation, grad: Tensor) -> Any:
    attrs = attrs_of(op, *_CONV)
    w, dy = op.inputs[1], op.inputs[2]
    return (
        None,
        apply_op("Conv2DBackpropFilter", input=grad, filter_sizes=static_shape(w), out_backprop=dy, **attrs),
        apply_op("Conv2D", input=grad, filter=w, **attrs),
    )


@register_gradient("Conv2DBackpropFilter")
def _conv2d_backprop_filter(op: Operation, grad: Tensor) -> Any:
    attrs = attrs_of(op, *_CONV)
    x, dy = op.inputs[0], op.inputs[2]
    return (
        apply_op("Conv2DBackpropInput", input_sizes=static_shape(x), filter=grad, out_backprop=dy, **attrs),
        None,
        apply_op("Conv2D", input=x, filter=grad, **attrs),
    )


@register_gradient("DepthwiseConv2dNative")
def _depthwise(op: Operation, grad: Tensor) -> Any:
    x, w = op.inputs
    attrs = attrs_of(op, *_CONV)
    return (
        apply_op(
            "DepthwiseConv2dNativeBackpropInput", input_sizes=static_shape(x), filter=w, out_backprop=grad, **attrs
        ),
        apply_op(
            "DepthwiseConv2dNativeBackpropFilter", input=x, filter_sizes=static_shape(w), out_backprop=grad, **attrs
        ),
    )


@register_gradient("DepthwiseConv2dNativeBackpropInput")
def _depthwise_backprop_input(op: Operation, grad: Tensor) -> Any:
    attrs = attrs_of(op, *_CONV)
    w, dy = op.inputs[1], op.inputs[2]
    return (
        None,
        apply_op(
            "DepthwiseConv2dNativeBackpropFilter", input=grad, filter_sizes=static_shape(w), out_backprop=dy, **attrs
        ),
        apply_op("DepthwiseConv2dNative", input=grad, filter=w, **attrs),
    )


@register_gradient("DepthwiseConv2dNativeBackpropFilter")
def _depthwise_backprop_filter(op: Operation, grad: Tensor) -> Any:
    attrs = attrs_of(op, *_CONV)
    x, dy = op.inputs[0], op.inputs[2]
    return (
        apply_op(
            "DepthwiseConv2dNativeBackpropInput", input_sizes=static_shape(x), filter=grad, out_backprop=dy, **attrs
        ),
        None,
        apply_op("DepthwiseConv2dNative", input=x, filter=grad, **attrs),
    )


@register_gradient("Conv3D")
def _conv3d(op: Operation, grad: Tensor) -> Any:
    x, w = op.inputs
    attrs = attrs_of(op, *_CONV)
    return (
        apply_op("Conv3DBackpropInputV2", input_sizes=static_shape(x), filter=w, out_backprop=grad, **attrs),
        apply_op("Conv3DBackpropFilterV2", input=x, filter_sizes=static_shape(w), out_backprop=grad, **attrs),
    )


@register_gradient("Conv3DBackpropInputV2")
def _conv3d_backprop_input(op: Operation, grad: Tensor) -> Any:
    attrs = attrs_of(op, *_CONV)
    w, dy = op.inputs[1], op.inputs[2]
    return (
        None,
        apply_op("Conv3DBackpropFilterV2", input=grad, filter_sizes=static_shape(w), out_backprop=dy, **attrs),
        apply_op("Conv3D", input=grad, filter=w, **attrs),
    )


@register_gradient("Conv3DBackpropFilterV2")
def _conv3d_backprop_filter(op: Operation, grad: Tensor) -> Any:
    attrs = attrs_of(op, *_CONV)
    x, dy = op.inputs[0], op.inputs[2]
    return (
        apply_op("Conv3DBackpropInputV2", input_sizes=static_shape(x), filter=grad, out_backprop=dy, **attrs),
        None,
        apply_op("Conv3D", input=x, filter=grad, **attrs),
    )


@register_gradient("Dilation2D")
def _dilation(op: Operation, grad: Tensor) -> Any:
    attrs = attrs_of(op, "strides", "rates", "padding")
    x, w = op.inputs
    return (
        apply_op("Dilation2DBackpropInput", input=x, filter=w, out_backprop=grad, **attrs),
        apply_op("Dilation2DBackpropFilter", input=x, filter=w, out_backprop=grad, **attrs),
    )
