"""Gradients of gathering and scattering."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops


@register_gradient("Gather")
def _gather(op: Operation, grad: Tensor) -> Any:
    params, indices = op.inputs
    return [_rows_gradient(params, indices, grad), None]


def _rows_gradient(params: Tensor, indices: Tensor, grad: Any) -> IndexedSlices:
    with grad.graph.colocate_with(params.op):
        shape = apply_op("Shape", input=params, out_type=dtypes.int64)
    shape = apply_op("Cast", x=shape, DstT=dtypes.int32)
    count = array_ops.expand_dims(array_ops.size(indices), 0)
    wanted = array_ops.concat([count, shape[1:]], 0)
    values = apply_op("Reshape", tensor=convert_to_tensor(grad), shape=wanted)
    return IndexedSlices(values, apply_op("Reshape", tensor=indices, shape=count), shape)


@register_gradient("GatherV2")
def _gather_v2(op: Operation, grad: Tensor) -> Any:
    params, indices, axis = op.inputs
    batch = int(op.attr("batch_dims") or 0)
    if batch < 0:
        batch += indices.shape.rank or 0
    known = constant_value(axis)
    if known is not None and int(known) == 0 and batch == 0:
        return [_rows_gradient(params, indices, grad), None, None]
    at = axis if known is None else int(known)
    return [_summed_rows(params, indices, at, batch, grad), None, None]


def _summed_rows(params: Tensor, indices: Tensor, at: Any, batch: int, grad: Tensor) -> Tensor:
    """Sum what was gathered along any axis: what is before and after it is one dimension each, batches are segments."""
    shape = array_ops.shape(params)
    batches, before = math_ops.reduce_prod(shape[:batch]), math_ops.reduce_prod(shape[batch:at])
    after, limit = math_ops.reduce_prod(shape[at:][1:]), shape[at]
    count = math_ops.reduce_prod(array_ops.shape(indices)[batch:])
    parts = array_ops.reshape(grad, array_ops.stack([batches, before, count, after]))
    parts = array_ops.reshape(
        array_ops.transpose(parts, [0, 2, 1, 3]), array_ops.stack([batches * count, before, after])
    )
    rows = array_ops.reshape(indices, array_ops.stack([batches, count]))
    if batch:
        first = math_ops.range(batches) * limit
        rows += math_ops.cast(array_ops.expand_dims(first, 1), indices.dtype.base_dtype)
    summed = math_ops.unsorted_segment_sum(parts, array_ops.reshape(rows, [-1]), batches * limit)
    summed = array_ops.reshape(summed, array_ops.stack([batches, limit, before, after]))
    return array_ops.reshape(array_ops.transpose(summed, [0, 2, 1, 3]), shape)


@register_gradient("GatherNd")
def _gather_nd(op: Operation, grad: Tensor) -> Any:
    params, indices = op.inputs
    shape = apply_op("Shape", input=params, out_type=indices.dtype.base_dtype)
    if indices.shape.rank == 2 and indices.shape[-1].value == 1:
        return [IndexedSlices(grad, array_ops.squeeze(indices, axis=-1), shape), None]
    return [apply_op("ScatterNd", indices=indices, updates=grad, shape=shape), None]


@register_gradient("TensorScatterUpdate")
def _tensor_scatter_update(op: Operation, grad: Tensor) -> Any:
    _, indices, updates = op.inputs
    kept = apply_op("TensorScatterUpdate", tensor=grad, indices=indices, updates=array_ops.zeros_like(updates))
    return [kept, None, apply_op("GatherNd", params=grad, indices=indices)]


@register_gradient("TensorScatterMax", "TensorScatterMin")
def _tensor_scatter_extremum(op: Operation, grad: Tensor) -> Any:
    tensor, indices, updates = op.inputs
    out = op.outputs[0]
    from_tensor = math_ops.cast(math_ops.equal(tensor, out), grad.dtype)
    chosen = math_ops.cast(math_ops.equal(updates, apply_op("GatherNd", params=out, indices=indices)), grad.dtype)
    count = apply_op("TensorScatterAdd", tensor=from_tensor, indices=indices, updates=chosen)
    share = grad / count
    return [share * from_tensor, None, chosen * apply_op("GatherNd", params=share, indices=indices)]
