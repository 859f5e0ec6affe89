"""Placeholders, and functions that pass a tensor on."""

from __future__ import annotations

from typing import Any, overload

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value_as_shape
from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape


def placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> Tensor:
    """Make a tensor that every run must feed."""
    return apply_op("Placeholder", name, dtype=dtype, shape=as_shape(shape))


def placeholder_with_default(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Make a placeholder that has a value when it is not fed."""
    return apply_op("PlaceholderWithDefault", name, input=input, shape=as_shape(shape))


def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """Make a SparseTensor to feed; what is given of the shape may be fed too."""

    def called(part: str) -> str | None:
        return None if name is None else f"{name}/{part}"

    known: TensorShape | None = None
    if shape is None:
        dense, rank = placeholder(dtypes.int64, [None], name=called("shape")), None
    else:
        if isinstance(shape, Tensor):
            default: Tensor = convert_to_tensor(shape, dtypes.int64)
            known = constant_value_as_shape(default)
        else:
            known = as_shape([None if d == -1 else d for d in as_shape(shape).as_list()])
            dims = [-1 if d is None else d for d in known.as_list()]
            default = constant(dims, dtypes.int64, name=called("shape_default") or "Const")
        rank = default.shape[0]
        dense = placeholder_with_default(default, default.shape, name=called("shape"))
    values = placeholder(dtype, [None], name=called("values"))
    found = SparseTensor(placeholder(dtypes.int64, [None, rank], name=called("indices")), values, dense)
    found.known_shape = known
    return found


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
