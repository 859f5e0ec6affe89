"""Gradients of joining and splitting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import IndexedSlices, constant
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops


@register_gradient("Pack")
def _pack(op: Operation, grad: Tensor) -> Any:
    return array_ops.unstack(grad, num=len(op.inputs), axis=op.attr("axis"))


@register_gradient("ConcatV2", "Concat")
def _concat(op: Operation, grad: Any) -> Any:
    """Cut the gradient into slices; of row slices (IndexedSlices) take the matching parts."""
    first = op.type == "Concat"
    axis = op.inputs[0] if first else op.inputs[-1]
    parts = op.inputs[1:] if first else op.inputs[:-1]
    if isinstance(grad, IndexedSlices):
        out = _concat_of_slices(grad, axis, parts)
    else:
        known = constant_value(axis)
        if known is not None and all(p.shape.is_fully_defined() for p in parts):
            at = int(known) % len(parts[0].shape.known())
            sizes = [p.shape.known()[at] for p in parts]
            out = apply_op_outputs(
                "SplitV", value=grad, size_splits=constant(sizes, dtypes.int64), split_dim=at, num_split=len(parts)
            )
        else:
            rank = array_ops.rank(parts[0])
            at_tensor = apply_op("FloorMod", x=math_ops.cast(axis, dtypes.int32), y=rank)
            shapes = apply_op_outputs("ShapeN", input=parts)
            offsets = apply_op_outputs("ConcatOffset", concat_dim=at_tensor, shape=shapes)
            out = [apply_op("Slice", input=grad, begin=b, size=s) for b, s in zip(offsets, shapes)]
    return [None, *out] if first else [*out, None]


def _concat_of_slices(grad: IndexedSlices, axis: Tensor, parts: Sequence[Tensor]) -> list[Any]:
    known = constant_value(axis)
    if known is None:
        raise TypeError("Can only compute IndexedSlices gradient with statically-known concat_dim")
    at = int(known)
    rank = grad.values.shape.rank
    if at < 0:
        if rank is None:
            raise TypeError("Can only compute IndexedSlices gradient with known rank for a negative concat_dim")
        at %= rank
    out: list[Any] = []
    start: Any = constant(0, grad.indices.dtype.base_dtype)
    if at > 0:
        position: Any = constant(0, dtypes.int32)
        for part in parts:
            shape = apply_op("Shape", input=part)
            begin = array_ops.concat(
                [
                    constant([0] * at, dtypes.int32),
                    array_ops.expand_dims(position, 0),
                    constant([0] * ((rank or at + 1) - at - 1), dtypes.int32),
                ],
                0,
            )
            size = array_ops.concat(
                [
                    constant([-1] * at, dtypes.int32),
                    shape[at : at + 1],
                    constant([-1] * ((rank or at + 1) - at - 1), dtypes.int32),
                ],
                0,
            )
            values = apply_op("Slice", input=grad.values, begin=begin, size=size)
            out.append(IndexedSlices(values, grad.indices, shape))
            position = position + shape[at]
        return out
    for part in parts:
        shape = apply_op("Shape", input=part)
        count = math_ops.cast(shape[0], grad.indices.dtype)
        end = start + count
        inside = math_ops.logical_and(math_ops.greater_equal(grad.indices, start), math_ops.less(grad.indices, end))
        chosen = array_ops.squeeze(apply_op("Where", input=inside), axis=[1])
        rows = array_ops.gather(grad.indices, chosen) - start
        out.append(IndexedSlices(array_ops.gather(grad.values, chosen), rows, shape))
        start = end
    return out


@register_gradient("SplitV")
def _split_v(op: Operation, *grads: Tensor) -> Any:
    joined = apply_op("ConcatV2", values=list(grads), axis=op.inputs[2]) if len(grads) > 1 else grads[0]
    return [joined, None, None]
