"""Ranges of numbers, and the bins that numbers fall into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.math_ops.division import truediv
from dtfctl.runtime.ops.math_ops.reductions import reduce_max
from dtfctl.runtime.ops.math_ops.types import cast
from dtfctl.runtime.ops.op_defs.binary import greater, maximum, minimum
from dtfctl.runtime.ops.op_defs.elementwise import floor


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str | None = "range") -> Tensor:
    """start, start + delta, ... below limit; range(n) counts from 0."""
    if limit is None:
        start, limit = 0, start
    with name_scope(name, "Range") as scope:
        values = [
            v if isinstance(v, Tensor) else convert_to_tensor(v, dtype, name=what)
            for v, what in ((start, "start"), (limit, "limit"), (delta, "delta"))
        ]
        if dtype is None:
            order = [dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64, dtypes.bfloat16, dtypes.float16]
            order += [dtypes.float32, dtypes.float64]
            widest = max((v.dtype.base_dtype for v in values), key=order.index)
        else:
            widest = as_dtype(dtype)
        first, last, step = (cast(v, widest) for v in values)
        return apply_op("Range", scope, start=first, limit=last, delta=step)


def linspace(start: Any, stop: Any, num: Any, name: str | None = None, axis: int = 0) -> Tensor:
    """Make `num` numbers from start to stop, evenly spaced; along a new axis, where these are not scalars."""
    first = convert_to_tensor(start, name="start")
    last = convert_to_tensor(stop, first.dtype.base_dtype, name="stop")
    if first.shape.rank in (None, 0) and last.shape.rank in (None, 0) and axis in (0, -1):
        return apply_op("LinSpace", name, start=first, stop=last, num=num)
    with name_scope(name, "linspace"):
        reach = apply_op("Sub", x=last, y=first)
        first = apply_op("AddV2", x=first, y=apply_op("ZerosLike", x=reach))
        rank = first.shape.rank
        if rank is None:
            raise ValueError("linspace of more than scalars needs start and stop of known rank")
        at = axis + rank + 1 if axis < 0 else axis
        if not 0 <= at <= rank:
            raise ValueError(f"axis {axis} is not one of the {rank + 1} axes of what linspace makes")
        count = convert_to_tensor(num, dtypes.int32)
        steps = apply_op("Range", start=0, limit=count, delta=1)
        parts = apply_op("Maximum", x=count - 1, y=1)
        shares = truediv(cast(steps, reach.dtype.base_dtype), cast(parts, reach.dtype.base_dtype))
        shares = apply_op("Reshape", tensor=shares, shape=[1] * at + [-1] + [1] * (rank - at))
        first, reach = (apply_op("ExpandDims", input=x, dim=at) for x in (first, reach))
        return apply_op("AddV2", x=first, y=apply_op("Mul", x=reach, y=shares))


lin_space = linspace


def bincount(
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
) -> Tensor:
    """Count how often each integer occurs in arr."""
    with name_scope(name, "bincount"):
        arr = convert_to_tensor(arr, dtypes.int32, name="arr")
        some = greater(array_ops.size(arr), 0)
        size = cast(some, dtypes.int32) * (reduce_max(arr) + 1)
        if minlength is not None:
            size = maximum(convert_to_tensor(minlength, dtypes.int32), size)
        if maxlength is not None:
            size = minimum(convert_to_tensor(maxlength, dtypes.int32), size)
        if weights is None:
            w: Any = constant([], dtype)
        else:
            w = apply_op("Reshape", tensor=convert_to_tensor(weights, name="weights"), shape=[-1])
        return apply_op("DenseBincount", input=apply_op("Reshape", tensor=arr, shape=[-1]), size=size, weights=w)


def bucketize(input: Any, boundaries: Sequence[float], name: str | None = None) -> Tensor:
    """Find which of the buckets between boundaries each element falls into."""
    return apply_op("Bucketize", name, input=input, boundaries=list(boundaries))


def histogram_fixed_width(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Count the values that fall into each of `nbins` bins of one width."""
    values = convert_to_tensor(values, name="values")
    return apply_op(
        "HistogramFixedWidth",
        name or "histogram_fixed_width",
        values=values,
        value_range=convert_to_tensor(value_range, values.dtype.base_dtype),
        nbins=nbins,
        dtype=dtype,
    )


def histogram_fixed_width_bins(
    values: Any, value_range: Any, nbins: Any = 100, dtype: Any = dtypes.int32, name: str | None = None
) -> Tensor:
    """Find the bin each value falls into."""
    with name_scope(name, "histogram_fixed_width_bins"):
        tensor = convert_to_tensor(values)
        flat = apply_op("Reshape", tensor=tensor, shape=[-1])
        ends = convert_to_tensor(value_range, tensor.dtype.base_dtype)
        count = convert_to_tensor(nbins, dtypes.int32)
        scaled = truediv(flat - ends[0], ends[1] - ends[0])
        places = floor(cast(count, scaled.dtype) * scaled)
        last = cast(count - 1, scaled.dtype)
        clipped = maximum(minimum(places, last), constant(0, scaled.dtype.base_dtype))
        return apply_op("Reshape", tensor=cast(clipped, dtype), shape=apply_op("Shape", input=tensor))
