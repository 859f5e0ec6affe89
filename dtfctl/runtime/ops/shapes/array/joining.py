"""Static shapes of concatenation, packing and their inverses."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, unknown_shape
from dtfctl.runtime.ops.shapes.array.axes import checked_axis


@register_shape("Concat", "ConcatV2")
def _concat(op: Operation) -> Any:
    parts = op.inputs[1:] if op.type == "Concat" else op.inputs[:-1]
    axis = computed_value(op.inputs[0] if op.type == "Concat" else op.inputs[-1])
    rank = next((t.shape.rank for t in parts if t.shape.rank is not None), None)
    if rank is None:
        return [TensorShape(None)]
    if rank == 0:
        raise ValueError(f"Can't concatenate scalars (use tf.stack instead) for '{op.name}'")
    shapes = [t.shape.with_rank(rank).dims_or_none for t in parts]
    if axis is None:
        return [unknown_shape(rank)]
    at = checked_axis(axis, rank, op)
    out: list[int | None] = [None] * rank
    for d in range(rank):
        sizes = [s[d] for s in shapes if s is not None]
        if d == at:
            out[d] = None if None in sizes else sum(s for s in sizes if s is not None)
        else:
            known = {s for s in sizes if s is not None}
            if len(known) > 1:
                raise ValueError(
                    f"Dimension {d} in both shapes must be equal, but are {', '.join(map(str, sorted(known)))} for "
                    f"'{op.name}' (op: '{op.type}')"
                )
            out[d] = known.pop() if known else None
    return [out]


@register_shape("Pack")
def _pack(op: Operation) -> Any:
    shape = op.inputs[0].shape
    for tensor in op.inputs[1:]:
        try:
            shape = shape.merge_with(tensor.shape)
        except ValueError:
            raise ValueError(
                f"Dimension in both shapes must be equal, but are {shape} and {tensor.shape} for '{op.name}' "
                "(op: 'Pack')"
            ) from None
    dims = shape.dims_or_none
    if dims is None:
        return [TensorShape(None)]
    at = checked_axis(op.attr("axis"), len(dims) + 1, op)
    return [[*dims[:at], len(op.inputs), *dims[at:]]]


@register_shape("Unpack")
def _unpack(op: Operation) -> Any:
    dims, num = op.inputs[0].shape.dims_or_none, op.attr("num")
    if dims is None:
        return [TensorShape(None)] * num
    at = checked_axis(op.attr("axis"), len(dims), op)
    if dims[at] not in (None, num):
        raise ValueError(f"Dimension must be {num} but is {dims[at]} for '{op.name}' (op: 'Unpack')")
    return [[d for i, d in enumerate(dims) if i != at]] * num


@register_shape("Split")
def _split(op: Operation) -> Any:
    dims, num = op.inputs[1].shape.dims_or_none, op.attr("num_split")
    axis = computed_value(op.inputs[0])
    if dims is None:
        return [TensorShape(None)] * num
    if axis is None:
        return [unknown_shape(len(dims))] * num
    at = checked_axis(axis, len(dims), op)
    size = dims[at]
    if size is not None and size % num:
        raise ValueError(
            f"Dimension size must be evenly divisible by {num} but is {size} for '{op.name}' (op: 'Split')"
        )
    return [
        [
            None if i == at and size is None else size // num if i == at and size is not None else d
            for i, d in enumerate(dims)
        ]
    ] * num


@register_shape("SplitV")
def _split_v(op: Operation) -> Any:
    dims, num = op.inputs[0].shape.dims_or_none, op.attr("num_split")
    sizes, axis = computed_value(op.inputs[1]), computed_value(op.inputs[2])
    if dims is None:
        return [TensorShape(None)] * num
    if axis is None:
        return [unknown_shape(len(dims))] * num
    at = checked_axis(axis.reshape(()), len(dims), op)
    parts: list[int | None] = [None] * num
    if sizes is not None:
        listed = sizes.tolist()
        total = dims[at]
        rest = None if total is None else total - sum(s for s in listed if s >= 0)
        parts = [rest if s < 0 else s for s in listed]
    return [[*dims[:at], p, *dims[at + 1 :]] for p in parts]
