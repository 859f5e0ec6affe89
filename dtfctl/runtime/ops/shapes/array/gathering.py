"""Static shapes of lookups by index, and of searches that give indices."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value, constant_value_as_shape
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, unknown_shape
from dtfctl.runtime.ops.shapes.array.axes import checked_axis


@register_shape("Gather")
def _gather(op: Operation) -> Any:
    params, indices = (t.shape.dims_or_none for t in op.inputs)
    if params is None or indices is None:
        return [TensorShape(None)]
    return [[*indices, *params[1:]]]


@register_shape("GatherV2")
def _gather_v2(op: Operation) -> Any:
    params, indices = op.inputs[0].shape.dims_or_none, op.inputs[1].shape.dims_or_none
    axis, batch = computed_value(op.inputs[2]), op.attr("batch_dims") or 0
    if params is None or indices is None:
        return [TensorShape(None)]
    if len(params) < 1:
        raise ValueError(f"Shape must be at least rank 1 but is rank 0 for '{op.name}' (op: 'GatherV2')")
    batch = batch + len(indices) if batch < 0 else batch
    if axis is None:
        return [unknown_shape(len(params) - 1 + len(indices) - batch)]
    at = checked_axis(axis, len(params), op)
    return [[*params[:at], *indices[batch:], *params[at + 1 :]]]


@register_shape("GatherNd")
def _gather_nd(op: Operation) -> Any:
    params, indices = (t.shape.dims_or_none for t in op.inputs)
    if params is None or indices is None or indices[-1] is None:
        return [TensorShape(None)]
    depth = indices[-1]
    if depth > len(params):
        raise ValueError(f"indices.shape[-1] must be <= params.rank, but saw indices shape: {indices} for '{op.name}'")
    return [[*indices[:-1], *params[depth:]]]


@register_shape("OneHot")
def _one_hot(op: Operation) -> Any:
    dims, depth = op.inputs[0].shape.dims_or_none, computed_value(op.inputs[1])
    if dims is None:
        return [TensorShape(None)]
    axis = op.attr("axis")
    at = len(dims) if axis == -1 else axis
    return [[*dims[:at], None if depth is None else int(depth), *dims[at:]]]


@register_shape("Unique", "UniqueWithCounts", "UniqueV2", "UniqueWithCountsV2")
def _unique(op: Operation) -> Any:
    rank = op.inputs[0].shape.rank
    y = [None] if rank == 1 else unknown_shape(rank)
    index: Any = op.inputs[0].shape if rank == 1 else [None]
    return [y, index, [None]][: len(op.outputs)]


@register_shape("UnravelIndex")
def _unravel(op: Operation) -> Any:
    size = op.inputs[1].shape.num_elements()
    return [TensorShape([size]).concatenate(op.inputs[0].shape)]


@register_shape("EditDistance")
def _edit_distance(op: Operation) -> Any:
    size = op.inputs[2].shape.num_elements()
    first, second = (constant_value_as_shape(op.inputs[i]).dims_or_none for i in (2, 5))
    if first and second and len(first) == len(second):
        pairs = zip(first[:-1], second[:-1])
        return [[None if a is None or b is None else max(a, b) for a, b in pairs]]
    return [unknown_shape(None if size is None else size - 1)]
