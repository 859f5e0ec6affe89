"""Slices, and the indexing of tensors with brackets."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import Dimension
from dtfctl.runtime.ops.array_ops.creation import ones_like
from dtfctl.runtime.ops.array_ops.gathering import boolean_mask
from dtfctl.runtime.ops.array_ops.joining import stacked
from dtfctl.runtime.ops.array_ops.shapes import index_tensor

newaxis = None


def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """Take `size` elements from `begin` along each axis; a size of -1 takes the rest."""
    with name_scope(name, "Slice") as scope:
        begin = convert_to_tensor(index_tensor(begin), name="begin")
        size_ = convert_to_tensor(index_tensor(size), begin.dtype.base_dtype, name="size")
        return apply_op("Slice", scope, input=input_, begin=begin, size=size_)


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """Take what numpy's `input_[begin:end:strides]` takes, with masks for open ends, new and dropped axes."""
    begin = convert_to_tensor(index_tensor(begin), name="begin")
    if strides is None:
        strides = ones_like(begin)
    masks = {
        "begin_mask": begin_mask,
        "end_mask": end_mask,
        "ellipsis_mask": ellipsis_mask,
        "new_axis_mask": new_axis_mask,
        "shrink_axis_mask": shrink_axis_mask,
    }
    out: Tensor = apply_op(
        "StridedSlice",
        name or "StridedSlice",
        input=input_,
        begin=begin,
        end=convert_to_tensor(index_tensor(end), begin.dtype.base_dtype),
        strides=convert_to_tensor(index_tensor(strides), begin.dtype.base_dtype),
        **masks,
    )
    if var is not None:

        def assign(value: Any, name: str | None = None) -> Any:
            common = {"begin": begin, "end": end, "strides": strides, **masks}
            name = name or f"{out.op.name}/_assign"
            handle = getattr(var, "handle", None)
            if handle is not None:
                op = make_op("ResourceStridedSliceAssign", name, ref=handle, value=value, **common)
                return var._after(op) if hasattr(var, "_after") else op
            return apply_op(
                "StridedSliceAssign", name, ref=var._ref() if hasattr(var, "_ref") else var, value=value, **common
            )

        out.assign = assign  # type: ignore[attr-defined]
    return out


def _slice_helper(tensor: Any, item: Any, var: Any = None) -> Tensor:
    """Take tensor[item]: integers, slices, ..., tf.newaxis, and boolean masks."""
    if isinstance(item, Tensor) and item.dtype.base_dtype is dtypes.bool_:
        return boolean_mask(tensor, item)
    if isinstance(item, np.ndarray) and item.dtype == np.bool_:
        return boolean_mask(tensor, item)
    items = list(item) if isinstance(item, (list, tuple)) else [item]
    begin: list[Any] = []
    end: list[Any] = []
    strides: list[Any] = []
    masks: dict[str, Any] = dict.fromkeys(
        ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
    )
    for i, part in enumerate(items):
        bit = 1 << i
        if isinstance(part, builtins.slice):
            begin.append(0 if part.start is None else part.start)
            end.append(0 if part.stop is None else part.stop)
            strides.append(1 if part.step is None else part.step)
            masks["begin_mask"] |= bit if part.start is None else 0
            masks["end_mask"] |= bit if part.stop is None else 0
        elif part is Ellipsis:
            begin.append(0)
            end.append(0)
            strides.append(1)
            masks["ellipsis_mask"] |= bit
        elif part is None:
            begin.append(0)
            end.append(0)
            strides.append(1)
            masks["new_axis_mask"] |= bit
        else:
            _check_index(part)
            begin.append(part)
            end.append(part + 1)
            strides.append(1)
            masks["shrink_axis_mask"] |= bit
    with name_scope(None, "strided_slice") as scope:
        if begin:
            packed = [convert_to_tensor(_pack_indices(v), name="stack") for v in (begin, end, strides)]
            wide = any(getattr(p, "dtype", None) == dtypes.int64 for p in packed if isinstance(p, Tensor))
            if wide:
                packed = [apply_op("Cast", x=p, DstT=dtypes.int64) for p in packed]
        else:
            packed = [constant([], dtypes.int32) for _ in range(3)]
        begins, ends, steps = packed
        return strided_slice(tensor, begins, ends, steps, var=var, name=scope, **masks)


def slice_of_variable(variable: Any, item: Any) -> Tensor:
    """Take variable[item], whose `assign` sets that part of the variable."""
    return _slice_helper(variable.value(), item, variable)


def _check_index(part: Any) -> None:
    if isinstance(part, (int, np.integer, Dimension)) and not isinstance(part, bool):
        return
    dtype = getattr(part, "dtype", None)
    if dtype is not None and as_dtype(dtype).base_dtype in (dtypes.int16, dtypes.int32, dtypes.int64):
        rank_ = getattr(getattr(part, "shape", None), "rank", 0)
        if rank_ in (0, None):
            return
    raise TypeError(
        "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are "
        f"valid indices, got {part!r}"
    )


def _pack_indices(values: list[Any]) -> Any:
    if any(isinstance(v, Tensor) for v in values):
        return stacked(values, 0, "stack")
    return index_tensor([int(v) for v in values])


Tensor._override_operator("__getitem__", _slice_helper)
