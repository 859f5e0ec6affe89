"""Gradients of slices."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.gradients.common import reduce_to


@register_gradient("Slice")
def _slice(op: Operation, grad: Tensor) -> Any:
    x, begin = op.inputs[0], op.inputs[1]
    have = apply_op("Shape", input=op.outputs[0], out_type=begin.dtype.base_dtype)
    whole = apply_op("Shape", input=x, out_type=begin.dtype.base_dtype)
    before = array_ops.expand_dims(begin, 1)
    after = array_ops.expand_dims(whole - have - begin, 1)
    paddings = array_ops.concat([before, after], 1)
    return [apply_op("Pad", input=grad, paddings=paddings), None, None]


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@register_gradient("StridedSlice")
def _strided_slice(op: Operation, grad: Tensor) -> Any:
    x, begin, end, strides = op.inputs
    shape = apply_op("Shape", input=x, out_type=begin.dtype.base_dtype)
    out = apply_op(
        "StridedSliceGrad",
        shape=shape,
        begin=begin,
        end=end,
        strides=strides,
        dy=grad,
        **{m: op.attr(m) for m in _MASKS},
    )
    return [out, None, None, None]


@register_gradient("StridedSliceGrad")
def _strided_slice_grad(op: Operation, grad: Tensor) -> Any:
    _, begin, end, strides = op.inputs[:4]
    out = apply_op("StridedSlice", input=grad, begin=begin, end=end, strides=strides, **{m: op.attr(m) for m in _MASKS})
    return [None, None, None, None, out]


@register_gradient("TensorStridedSliceUpdate")
def _tensor_strided_slice_update(op: Operation, grad: Tensor) -> Any:
    _, begin, end, strides, value = op.inputs
    masks = {m: op.attr(m) for m in _MASKS}
    dv = apply_op("StridedSlice", input=grad, begin=begin, end=end, strides=strides, **masks)
    dx = apply_op(
        "TensorStridedSliceUpdate",
        input=grad,
        begin=begin,
        end=end,
        strides=strides,
        value=array_ops.zeros_like(dv),
        **masks,
    )
    return [dx, None, None, None, reduce_to(value, dv, dv, None)[0]]
