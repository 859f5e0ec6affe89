"""How large a ragged tensor is, and its parts."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.ragged_ops.conversion import positive_axis
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import (
    RaggedTensor,
    convert_to_tensor_or_ragged_tensor,
    method_of_ragged_tensors,
)


@method_of_ragged_tensors("row_lengths")
def row_lengths(source: RaggedTensor, axis: int = 1, name: str | None = None) -> Any:
    """Count the values of each row; a ragged tensor for the rows of inner dimensions.

    Raises:
        ValueError: the axis is out of bounds, or negative where the rank is unknown.
    """
    with name_scope(name, "RaggedRowLengths"):
        return _lengths(source, axis)


def _lengths(source: RaggedTensor, axis: int) -> Any:
    axis = positive_axis(axis, source.shape.rank)
    if axis == 0:
        return source._row_partition.nrows()
    if axis == 1:
        return source._row_partition.row_lengths()
    if isinstance(source.values, RaggedTensor):
        return source.with_values(_lengths(source.values, axis - 1))
    kind = source.row_splits.dtype.base_dtype
    dims = array_ops.shape(source.values, out_type=kind)
    ones = array_ops.ones(dims[: axis - 1], kind)
    return source.with_values(ones * dims[axis - 1])


@method_of_ragged_tensors("bounding_shape")
def bounding_shape(source: RaggedTensor, axis: Any = None, name: str | None = None, out_type: Any = None) -> Tensor:
    """Compute the shape of the smallest box that holds all rows, or its dimension `axis`."""
    with name_scope(name, "RaggedBoundingBox"):
        return _box(source, axis, out_type)


def _box(source: RaggedTensor, axis: Any, out_type: Any) -> Tensor:
    kind = source.row_splits.dtype.base_dtype if out_type is None else as_dtype(out_type)
    nested = source.nested_row_splits
    flat_dims = array_ops.shape(source.flat_values, out_type=nested[0].dtype.base_dtype)
    if isinstance(axis, int):
        if axis == 0:
            return math_ops.cast(source.nrows(), kind)
        if axis == 1:
            return math_ops.cast(_longest(source._row_partition.row_lengths()), kind)
    dims = [source.nrows(), *(_longest(p.row_lengths()) for p in source._nested_row_partitions)]
    box = math_ops.cast(array_ops.concat([array_ops.stack(dims), flat_dims[1:]], axis=0), kind)
    return box if axis is None else array_ops.gather(box, axis)


def _longest(lengths: Tensor) -> Tensor:
    return math_ops.maximum(math_ops.reduce_max(lengths), constant(0, lengths.dtype.base_dtype))


def size(input: Any, out_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """Count the elements."""
    with name_scope(name, "RaggedSize"):
        input = convert_to_tensor_or_ragged_tensor(input)
        if not isinstance(input, RaggedTensor):
            return array_ops.size(input, out_type=out_type or dtypes.int32)
        return array_ops.size(input.flat_values, out_type=out_type or dtypes.int32)


def rank(input: Any, name: str | None = None) -> Tensor:
    """Count the dimensions."""
    with name_scope(name, "RaggedRank"):
        input = convert_to_tensor_or_ragged_tensor(input)
        if not isinstance(input, RaggedTensor):
            return array_ops.rank(input)
        if input.shape.rank is not None:
            return constant(input.shape.rank, dtypes.int32)
        return array_ops.rank(input.flat_values) + input.ragged_rank


def size_v1(input: RaggedTensor, name: str | None = None, out_type: Any = dtypes.int32) -> Tensor:
    """Count the elements, with the order of arguments of `tf.size`."""
    return size(input, out_type, name)
