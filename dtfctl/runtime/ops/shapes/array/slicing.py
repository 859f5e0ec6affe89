"""Static shapes of slices."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import computed_value, constant_value_as_shape
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, unknown_shape
from dtfctl.runtime.ops.shapes.indexing import strided_index

Dims = tuple[int | None, ...]


@register_shape("Slice")
def _slice(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    begin, size = computed_value(op.inputs[1]), computed_value(op.inputs[2])
    if size is None:
        partial = constant_value_as_shape(op.inputs[2]).dims_or_none
        if dims is not None:
            return [unknown_shape(len(dims)).merge_with(partial)]
        return [TensorShape(partial)]
    if dims is None:
        return [[None if s < 0 else s for s in size.tolist()]]
    if len(size) != len(dims):
        raise ValueError(f"Shape must be rank {len(size)} but is rank {len(dims)} for '{op.name}' (op: 'Slice')")
    out: list[int | None] = []
    for i, (d, s) in enumerate(zip(dims, size.tolist())):
        b = None if begin is None else int(begin[i])
        if s == -1:
            if d is not None and b is not None and b > d:
                raise ValueError(f"Negative dimension size caused by subtracting {b} from {d} for '{op.name}'")
            out.append(None if d is None or b is None else d - b)
        else:
            # That a slice goes past the end is said in a step, as TensorFlow does: it may never be run.
            out.append(s)
    return [out]


@register_shape("StridedSlice")
def _strided_slice(op: Operation) -> Any:
    dims = op.inputs[0].shape.dims_or_none
    bounds = [computed_value(t) for t in op.inputs[1:4]]
    masks = tuple(int(op.attr(f"{m}_mask")) for m in ("begin", "end", "ellipsis", "new_axis", "shrink_axis"))
    if dims is None:
        return [TensorShape(None)]
    count = op.inputs[1].shape.num_elements()
    if any(b is None for b in bounds):
        if count is None:
            return [TensorShape(None)]
        zeros, ones = (0,) * count, (1,) * count
        # Axes open at both ends are known whatever the bounds are; the others stand for empty ones.
        whole = masks[0] & masks[1] if bounds[2] is not None else 0
        full = (whole | masks[4], whole | masks[4], masks[2], masks[3], masks[4])
        strides = tuple(bounds[2].tolist()) if bounds[2] is not None else ones
        stand_in = tuple(1 if d is None else max(d, 1) for d in dims)
        index = strided_index(stand_in, zeros, zeros, strides, full)
        return [_indexed(dims, index, sliced_known=False)]
    begin, end, strides = (tuple(b.tolist()) for b in bounds if b is not None)
    # Unknown dimensions stand for one large enough that every index is inside.
    large = 1 << 40
    stand_in = tuple(large if d is None else d for d in dims)
    try:
        index = strided_index(stand_in, begin, end, strides, masks)  # type: ignore[arg-type]
    except InvalidArgumentError as e:
        raise ValueError(f"{e.message} for '{op.name}' (op: 'StridedSlice')") from None
    return [_indexed(dims, index, sliced_known=True)]


def _indexed(dims: Dims, index: tuple[Any, ...], sliced_known: bool) -> list[int | None]:
    out: list[int | None] = []
    at = 0
    for part in index:
        if part is Ellipsis:
            continue
        if part is None:
            out.append(1)
            continue
        d = dims[at]
        at += 1
        if isinstance(part, int):
            continue
        if part == slice(None):
            out.append(d)
        elif not sliced_known and part == slice(0, 0):
            out.append(None)
        elif d is None:
            # How long the slice is depends on the dimension: `[-4:4]` is empty only where there are many.
            out.append(None)
        else:
            out.append(len(range(*part.indices(d))))
    return [*out, *dims[at:]]
