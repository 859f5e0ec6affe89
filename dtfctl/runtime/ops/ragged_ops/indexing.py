"""The indexing of ragged tensors with brackets."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import Dimension
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.ragged_ops.arranging import boolean_mask
from dtfctl.runtime.ops.ragged_ops.gathering import gather
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor, method_of_ragged_tensors

_ALL = slice(None, None, None)


@method_of_ragged_tensors("__getitem__")
def ragged_item(source: RaggedTensor, key: Any) -> Any:
    """Take source[key]: integers, slices, `...`, tf.newaxis, and ragged or dense masks.

    Raises:
        ValueError: an integer for an inner ragged dimension, or more indices than dimensions.
        TypeError: what is no index.
    """
    with name_scope(None, "RaggedGetItem"):
        if _is_mask(key):
            return boolean_mask(source, key)
        parts = list(key) if isinstance(key, (list, tuple)) else [key]
        if sum(part is Ellipsis for part in parts) > 1:
            raise ValueError("Found multiple `...` in slice spec")
        return _taken(source, _without_ellipsis(source, parts))


def _is_mask(key: Any) -> bool:
    if isinstance(key, RaggedTensor):
        return key.dtype.base_dtype is dtypes.bool_
    return (isinstance(key, Tensor) and key.dtype.base_dtype is dtypes.bool_ and key.shape.rank != 0) or (
        isinstance(key, np.ndarray) and key.dtype == np.bool_
    )


def _without_ellipsis(source: RaggedTensor, parts: list[Any]) -> list[Any]:
    if not any(part is Ellipsis for part in parts):
        return parts
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    used = sum(part is not None for part in parts) - 1
    rank = source.shape.rank
    if rank is None:
        if at == len(parts) - 1:
            return parts[:at]
        raise ValueError("Ellipsis not supported for unknown shape RaggedTensors")
    return [*parts[:at], *([_ALL] * max(0, rank - used)), *parts[at + 1 :]]


def _taken(x: Any, parts: list[Any]) -> Any:
    """Take what the parts say of the outermost dimension, then of those within."""
    if not parts:
        return x
    if not isinstance(x, RaggedTensor):
        return x[tuple(parts)]
    first, rest = parts[0], parts[1:]
    if first is None:
        inner = _taken(x, rest)
        return _with_new_outer(inner)
    if isinstance(first, slice):
        return _inside(_rows(x, first), rest)
    place = _index(first)
    starts, limits = x.row_starts(), x.row_limits()
    row = _values_between(x, place, starts, limits)
    return _taken(row, rest)


def _values_between(x: RaggedTensor, place: Any, starts: Tensor, limits: Tensor) -> Any:
    at = math_ops.cast(place, dtypes.int64) if isinstance(place, Tensor) else place
    # StridedSlice knows negative places, and refuses those out of bounds.
    begin, end = starts[at], limits[at]
    if isinstance(x.values, RaggedTensor):
        return _rows(x.values, slice(begin, end))
    return x.values[begin:end]


def _with_new_outer(inner: Any) -> Any:
    if isinstance(inner, RaggedTensor):
        return RaggedTensor.from_uniform_row_length(inner, inner.nrows(), nrows=1, validate=False)
    return array_ops.expand_dims(inner, 0)


def _index(value: Any) -> Any:
    if isinstance(value, Dimension):
        value = value.value
    if isinstance(value, (bool, float, str)) or not (
        isinstance(value, (int, np.integer)) or hasattr(value, "dtype") or hasattr(value, "__index__")
    ):
        raise TypeError(
            f"Slice indices must be integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) or scalar integer "
            f"tensors, got {value!r}"
        )
    if hasattr(value, "dtype") and not as_dtype(value.dtype).base_dtype.is_integer:
        raise TypeError(f"Slice indices must be integers, got {value!r}")
    return value


def _rows(x: RaggedTensor, part: slice) -> RaggedTensor:
    """Take a slice of the rows."""
    for bound in (part.start, part.stop, part.step):
        if bound is not None:
            _index(bound)
    if part == _ALL if not any(isinstance(b, Tensor) for b in (part.start, part.stop, part.step)) else False:
        return x
    step = _static(part.step)
    if step == 0:
        raise ValueError("Slice step cannot be zero.")
    if part.step is None or step == 1:
        # Rows that follow each other stay where they are.
        starts, limits = x.row_starts()[part], x.row_limits()[part]
        count = array_ops.shape(starts, out_type=x.row_splits.dtype.base_dtype)[0]
        zero = constant(0, x.row_splits.dtype.base_dtype)
        begin = array_ops.concat([starts, constant([0], zero.dtype)], 0)[0]
        end = array_ops.concat([constant([0], zero.dtype), limits], 0)[-1]
        end = array_ops.where_v2(math_ops.equal(count, zero), begin, end)
        splits = array_ops.concat([array_ops.reshape(begin, [1]), limits], 0) - begin
        values: Any = _rows(x.values, slice(begin, end)) if isinstance(x.values, RaggedTensor) else x.values[begin:end]
        uniform = x._row_partition
        if uniform.is_uniform():
            return RaggedTensor.from_uniform_row_length(  # type: ignore[no-any-return]
                values, uniform.uniform_row_length(), nrows=count, validate=False
            )
        static = starts.shape.as_list()[0]
        splits.set_shape([None if static is None else static + 1])
        return RaggedTensor.from_row_splits(values, splits, validate=False)  # type: ignore[no-any-return]
    places = math_ops.range(x.nrows())[part]
    return gather(x, places)  # type: ignore[no-any-return]


def _static(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, Tensor):
        known = constant_value(value)
        return None if known is None else int(known)
    return value.value if isinstance(value, Dimension) else int(value)


def _inside(x: RaggedTensor, parts: list[Any]) -> Any:
    """Take what the parts say of each row."""
    if not parts or (
        all(isinstance(p, slice) and p == _ALL for p in parts if not _has_tensor(p))
        and not any(_has_tensor(p) or not isinstance(p, slice) for p in parts)
    ):
        rank = x.shape.rank
        if rank is not None and len(parts) > rank - 1:
            raise ValueError(f"Too many indices for RaggedTensor of rank {rank}")
        return x
    first, rest = parts[0], parts[1:]
    kind = x.row_splits.dtype.base_dtype
    if first is None:
        splits = math_ops.range(x.nrows() + 1)
        inner = _inside(x, rest) if rest else x
        static = x._row_partition.static_nrows
        del splits, static
        if not isinstance(inner, RaggedTensor):
            return array_ops.expand_dims(inner, 1)
        return RaggedTensor.from_uniform_row_length(inner, constant(1, kind), nrows=inner.nrows(), validate=False)
    if isinstance(first, slice):
        cut = _cut_rows(x, first)
        return _deeper(cut, rest)
    place = _index(first)
    if not x._row_partition.is_uniform():
        raise ValueError("Cannot index into an inner ragged dimension.")
    at = math_ops.cast(place, kind)
    length = x._row_partition.uniform_row_length()
    assert length is not None
    at = array_ops.where_v2(math_ops.less(at, constant(0, kind)), at + length, at)
    fits = math_ops.logical_and(math_ops.greater_equal(at, constant(0, kind)), math_ops.less(at, length))
    rows = x.row_starts() + array_ops.where_v2(fits, at, constant(-(2**30), kind))
    return _taken(gather(x.values, rows), [_ALL, *rest] if rest else [])


def _has_tensor(part: Any) -> bool:
    return isinstance(part, slice) and any(isinstance(b, Tensor) for b in (part.start, part.stop, part.step))


def _deeper(x: RaggedTensor, rest: list[Any]) -> Any:
    if not rest:
        return x
    if isinstance(x.values, RaggedTensor):
        if rest[0] is None or not isinstance(rest[0], slice):
            return x.with_values(_inside_values(x.values, rest))
        return x.with_values(_inside(x.values, rest))
    return x.with_values(x.values[(_ALL, *rest)])


def _inside_values(values: RaggedTensor, rest: list[Any]) -> Any:
    return _inside(values, rest)


def _cut_rows(x: RaggedTensor, part: slice) -> RaggedTensor:
    """Take a slice of each row."""
    if not _has_tensor(part) and part == _ALL:
        return x
    for given in (part.start, part.stop, part.step):
        if given is not None:
            _index(given)
    kind = x.row_splits.dtype.base_dtype
    step = 1 if part.step is None else _static(part.step)
    if step == 0:
        raise ValueError("Slice step cannot be zero.")
    if step is None:
        raise ValueError("The step of a slice of an inner ragged dimension must be known: a Python integer")
    lengths = x.row_lengths()
    low, high = (0, None) if step > 0 else (-1, -1)

    def bound(value: Any, default: Tensor) -> Tensor:
        if value is None:
            return default
        at = math_ops.cast(convert_to_tensor(value), kind)
        at = array_ops.where_v2(math_ops.less(at, constant(0, kind)), at + lengths, at + array_ops.zeros_like(lengths))
        top = lengths if high is None else lengths + high
        return math_ops.minimum(math_ops.maximum(at, constant(low, kind)), top)

    first = array_ops.zeros_like(lengths) if step > 0 else lengths - 1
    last = lengths if step > 0 else array_ops.zeros_like(lengths) - 1
    begin, end = bound(part.start, first), bound(part.stop, last)
    starts = x.row_starts()
    splits, places = apply_op_outputs(
        "RaggedRange", starts=starts + begin, limits=starts + end, deltas=constant(step, kind), Tsplits=kind
    )
    splits.set_shape(x.row_splits.shape)
    return RaggedTensor.from_row_splits(gather(x.values, places), splits, validate=False)  # type: ignore[no-any-return]
