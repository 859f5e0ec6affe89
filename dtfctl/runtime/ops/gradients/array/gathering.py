"""Gradients of gathering and scattering."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import IndexedSlices, constant, convert_to_tensor
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
    if batch:
        rank = params.shape.rank
        if known is None or rank is None:
            raise ValueError("The gradient of a batched gather needs a constant axis and params of known rank")
        return [_batch_gather_gradient(params, indices, int(known) % rank, batch, grad), None, None]
    # Bring the gathered dimension to the front, sum there, and put it back; all before and after it are one each.
    shape = array_ops.shape(params)
    at = axis if known is None else int(known)
    before, after = math_ops.reduce_prod(shape[:at]), math_ops.reduce_prod(shape[at:][1:])
    count = array_ops.size(indices)
    parts = array_ops.transpose(array_ops.reshape(grad, array_ops.stack([before, count, after])), [1, 0, 2])
    summed = math_ops.unsorted_segment_sum(parts, array_ops.reshape(indices, [-1]), shape[at])
    return [array_ops.reshape(array_ops.transpose(summed, [1, 0, 2]), shape), None, None]


def _batch_gather_gradient(params: Tensor, indices: Tensor, at: int, batch: int, grad: Tensor) -> Tensor:
    """Make batches further segments of one big sum."""
    rank, index_rank = params.shape.rank, indices.shape.rank
    if rank is None or index_rank is None:
        raise ValueError("The gradient of a batched gather needs arguments of known rank")
    shape = array_ops.shape(params)
    extra = index_rank - batch
    total = rank - 1 + index_rank - batch
    # [batch, indices, outer, inner]
    perm = [*range(batch), *range(at, at + extra), *range(batch, at), *range(at + extra, total)]
    moved = array_ops.transpose(grad, perm)
    rest = array_ops.concat([shape[batch:at], shape[at + 1 :]], 0)
    flat = apply_op("Reshape", tensor=moved, shape=array_ops.concat([constant([-1], dtypes.int32), rest], 0))
    batches = apply_op("Prod", input=shape[:batch], reduction_indices=[0])
    limit = math_ops.cast(shape[at], indices.dtype)
    offset = math_ops.cast(math_ops.range(batches), indices.dtype) * limit
    rows = apply_op("Reshape", tensor=indices, shape=array_ops.stack([batches, -1])) + array_ops.expand_dims(offset, 1)
    summed = math_ops.unsorted_segment_sum(flat, array_ops.reshape(rows, [-1]), batches * shape[at])
    whole = array_ops.concat([shape[:batch], shape[at : at + 1], rest], 0)
    summed = apply_op("Reshape", tensor=summed, shape=whole)
    back = [*range(batch), *range(batch + 1, at + 1), batch, *range(at + 1, rank)]
    return array_ops.transpose(summed, back)


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
