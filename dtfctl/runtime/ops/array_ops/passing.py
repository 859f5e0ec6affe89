"""Placeholders, and functions that pass a tensor on."""

from __future__ import annotations

from typing import Any, overload

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import as_shape


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Make a tensor that every run must feed."""
    return apply_op("Placeholder", name, dtype=dtype, shape=as_shape(shape))


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Make a placeholder that has a value when it is not fed."""
    return apply_op("PlaceholderWithDefault", name, input=input, shape=as_shape(shape))


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """Make a SparseTensor to feed; the shape is fed too unless it is given."""
    base = name or "Placeholder"
    rank = None
    if isinstance(shape, Tensor):
        rank = shape.shape.num_elements()
        dense: Tensor = convert_to_tensor(shape, dtypes.int64)
    elif shape is None:
        dense = placeholder(dtypes.int64, [None], name=f"{base}/shape")
    else:
        dims = [-1 if d is None else int(d) for d in (as_shape(shape).as_list())]
        rank = len(dims)
        known = constant(dims, dtypes.int64, name=f"{base}/shape/Const")
        dense = placeholder_with_default(known, [rank], name=f"{base}/shape") if -1 in dims else known
    return SparseTensor(
        placeholder(dtypes.int64, [None, rank], name=f"{base}/indices"),
        placeholder(dtype, [None], name=f"{base}/values"),
        dense,
    )


@overload
def identity(input: Tensor, name: str | None = None) -> Tensor: ...
@overload
def identity(input: Any, name: str | None = None) -> Any: ...
def identity(input: Any, name: str | None = None) -> Any:
    """Pass on the same values as a new tensor."""
    if isinstance(input, IndexedSlices):
        return IndexedSlices(identity(input.values, name), input.indices, input.dense_shape)
    if isinstance(input, SparseTensor):
        return SparseTensor(input.indices, identity(input.values, name), input.dense_shape)
    return apply_op("Identity", name, input=input)


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Pass on the same values; a step where they do not have `shape` fails."""
    return apply_op("EnsureShape", name, input=x, shape=as_shape(shape))
