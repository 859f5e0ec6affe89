"""Static shapes of ops that read, compute or change a shape."""

from __future__ import annotations

import math
from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value, constant_value_as_shape
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, unknown_shape
from dtfctl.runtime.ops.shapes.array.axes import checked_axis


def _asked_for(op: Operation, sizes: Tensor) -> TensorShape:
    """Find the shape that a tensor of sizes asks for.

    Raises:
        ValueError: it is no list, or a size is below -1.
    """
    if sizes.shape.rank not in (None, 1):
        raise ValueError(f"Shape must be rank 1 but is rank {sizes.shape.rank} for '{op.name}' (op: '{op.type}')")
    value = computed_value(sizes)
    if value is not None and (value < -1).any():
        raise ValueError(f"Invalid value in tensor used for shape: {int(value.min())} for '{op.name}'")
    return constant_value_as_shape(sizes)


@register_shape("Reshape")
def _reshape(op: Operation) -> Any:
    wanted = _asked_for(op, op.inputs[1]).dims_or_none
    source = op.inputs[0].shape
    if wanted is None:
        return [TensorShape(None)]
    count = source.num_elements()
    unknown = [i for i, d in enumerate(wanted) if d is None]
    known = math.prod(d for d in wanted if d is not None)
    if count is None:
        given = source.dims_or_none
        if given is not None and not unknown and given.count(None) == 1:
            _divided(known, math.prod(d for d in given if d is not None), op)
        return [wanted]
    if not unknown and known != count:
        raise ValueError(
            f"Cannot reshape a tensor with {count} elements to shape {list(wanted)} ({known} elements) for "
            f"'{op.name}' (op: 'Reshape')"
        )
    if len(unknown) == 1 and known:
        filled = list(wanted)
        filled[unknown[0]] = _divided(count, known, op)
        return [filled]
    return [wanted]


def _divided(count: int, known: int, op: Operation) -> int | None:
    """Find the one size that is not given."""
    if not known:
        return None
    if count % known:
        raise ValueError(
            f"Dimension size must be evenly divisible by {known} but is {count} for '{op.name}' (op: '{op.type}')"
        )
    return count // known


@register_shape("Squeeze")
def _squeeze(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    chosen = op.attr("squeeze_dims") or ()
    if dims is None:
        return [TensorShape(None)]
    if not chosen:
        return [TensorShape(None) if None in dims else [d for d in dims if d != 1]]
    drop = {checked_axis(a, len(dims), op) for a in chosen}
    for a in drop:
        if dims[a] not in (None, 1):
            raise ValueError(f"Can not squeeze dim[{a}], expected a dimension of 1, got {dims[a]} for '{op.name}'")
    return [[d for i, d in enumerate(dims) if i not in drop]]


@register_shape("ExpandDims")
def _expand_dims(op: Operation) -> Any:
    dims, axis = op.inputs[0].shape.dims_or_none, computed_value(op.inputs[1])
    if dims is None:
        return [TensorShape(None)]
    if axis is None:
        return [unknown_shape(len(dims) + 1)]
    at = int(axis.reshape(()))
    if not -len(dims) - 1 <= at <= len(dims):
        raise ValueError(f"dim {at} not in the interval [{-len(dims) - 1}, {len(dims)}]. for '{op.name}'")
    at = at + len(dims) + 1 if at < 0 else at
    return [[*dims[:at], 1, *dims[at:]]]


@register_shape("BroadcastTo")
def _broadcast_to(op: Operation) -> Any:
    shape = constant_value_as_shape(op.inputs[1])
    have, wanted = op.inputs[0].shape.dims_or_none, shape.dims_or_none
    if have is not None and wanted is not None:
        rest = wanted[len(wanted) - len(have) :]
        if len(have) > len(wanted) or any(h != 1 and None not in (h, w) and h != w for h, w in zip(have, rest)):
            raise ValueError(
                f"A tensor of shape {op.inputs[0].shape} cannot be broadcast to {shape} for '{op.name}' "
                "(op: 'BroadcastTo')"
            )
    return [shape]


@register_shape("Fill", "Empty", "ScatterNd", "StridedSliceGrad")
def _from_shape_tensor(op: Operation) -> Any:
    position = {"Fill": 0, "Empty": 0, "ScatterNd": 2, "StridedSliceGrad": 0}[op.type]
    return [_asked_for(op, op.inputs[position])]


@register_shape("BroadcastArgs")
def _broadcast_args(op: Operation) -> Any:
    a, b = (t.shape.num_elements() for t in op.inputs)
    return [[None if a is None or b is None else max(a, b)]]
