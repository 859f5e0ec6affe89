"""Gradients of variable ops."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, constant
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient


def _variable_shape(handle: Tensor) -> Tensor:
    held = handle._handle_data
    if held is not None and held[1].is_fully_defined():
        return constant(list(held[1].known()), dtypes.int32)
    return apply_op("VariableShape", input=handle)


@register_gradient("ResourceGather")
def _resource_gather(op: Operation, grad: Tensor) -> Any:
    """Keep rows of the gradient, one for each index; nothing of the table's size."""
    if op.attr("batch_dims", 0):
        raise LookupError("ResourceGather has no gradient for batch_dims > 0")
    handle, indices = op.inputs
    shape = _variable_shape(handle)
    size = apply_op("Reshape", tensor=apply_op("Size", input=indices), shape=constant([1]))
    inner = apply_op("StridedSlice", input=shape, begin=[1], end=[0], strides=[1], end_mask=1)
    values = apply_op("Reshape", tensor=grad, shape=apply_op("ConcatV2", values=[size, inner], axis=0))
    return IndexedSlices(values, apply_op("Reshape", tensor=indices, shape=size), shape), None


@register_gradient("ResourceGatherNd")
def _resource_gather_nd(op: Operation, grad: Tensor) -> Any:
    handle, indices = op.inputs
    shape = _variable_shape(handle)
    if indices.dtype.base_dtype is dtypes.int64:
        shape = apply_op("Cast", x=shape, DstT=dtypes.int64)
    if indices.shape.rank == 2 and indices.shape[-1].value == 1:
        flat = apply_op("Squeeze", input=indices, squeeze_dims=[-1])
        return IndexedSlices(grad, flat, shape), None
    return apply_op("ScatterNd", indices=indices, updates=grad, shape=shape), None
