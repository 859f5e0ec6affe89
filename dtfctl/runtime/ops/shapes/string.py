"""Static shapes of string ops."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, broadcast_static


@register_shape("StringJoin")
def _join(op: Operation) -> list[Any]:
    shape = TensorShape([])
    unknown = False
    for tensor in op.inputs:
        if tensor.shape.rank is None:
            unknown = True
        elif tensor.shape.rank:
            shape = tensor.shape if shape.rank == 0 else shape.merge_with(tensor.shape)
    return [TensorShape(None) if unknown and shape.rank == 0 else shape]


@register_shape("Substr")
def _substr(op: Operation) -> list[Any]:
    op.inputs[1].shape.assert_is_compatible_with(op.inputs[2].shape)
    return [broadcast_static(op.inputs[0].shape, op.inputs[1].shape)]


@register_shape("ReduceJoin")
def _reduce_join(op: Operation) -> list[Any]:
    shape, axes = op.inputs[0].shape, computed_value(op.inputs[1])
    keep = bool(op.attr("keep_dims"))
    if shape.rank is None:
        return [TensorShape(None)]
    if axes is None:
        return [TensorShape([None] * shape.rank) if keep else TensorShape(None)]
    gone = {int(a) % shape.rank for a in axes.reshape(-1)} if shape.rank else set()
    dims = shape.as_list()
    if keep:
        return [[1 if i in gone else d for i, d in enumerate(dims)]]
    return [[d for i, d in enumerate(dims) if i not in gone]]


@register_shape("UnicodeDecode", "UnicodeDecodeWithOffsets")
def _decode(op: Operation) -> list[Any]:
    count = op.inputs[0].shape.num_elements()
    return [[None if count is None else count + 1], [None], [None]][: len(op.outputs)]
