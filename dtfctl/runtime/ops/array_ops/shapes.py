"""Shapes: asking for them and changing them without moving elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import Dimension, TensorShape, as_shape, broadcast_static


def shape(input: Any, name: str | None = None, out_type: Any = None, optimize: bool = True) -> Tensor:
    """Get the shape of a tensor, in int32 or out_type; a constant when it is known statically."""
    out_type = dtypes.int32 if out_type is None else out_type
    with name_scope(name, "Shape") as scope:
        if isinstance(input, SparseTensor):
            return apply_op("Cast", scope, x=input.dense_shape, DstT=out_type)
        x = convert_to_tensor(input)
        if optimize and x.shape.is_fully_defined():
            return constant(list(x.shape.known()), out_type, name=scope)
        return apply_op("Shape", scope, input=x, out_type=out_type)


def size(input: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """Get the number of elements, in int32 or out_type; a constant where it is known."""
    out_type = dtypes.int32 if out_type is None else out_type
    with name_scope(name, "Size") as scope:
        if isinstance(input, SparseTensor):
            dims = apply_op("Cast", x=input.dense_shape, DstT=out_type)
            return apply_op("Prod", scope, input=dims, reduction_indices=[0])
        x = convert_to_tensor(input)
        count = x.shape.num_elements()
        if count is not None:
            return constant(count, out_type, name=scope)
        return apply_op("Size", scope, input=x, out_type=out_type)


def rank(input: Any, name: str | None = None) -> Tensor:
    """Get the number of dimensions; a constant where it is known."""
    with name_scope(name, "Rank") as scope:
        if isinstance(input, SparseTensor):
            return apply_op("Size", scope, input=input.dense_shape)
        x = convert_to_tensor(input)
        if x.shape.rank is not None:
            return constant(x.shape.rank, dtypes.int32, name=scope)
        return apply_op("Rank", scope, input=x)


def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """Arrange the same elements in another shape; one dimension may be -1."""
    if isinstance(shape, (list, tuple)) and not len(shape):
        shape = np.zeros(0, np.int32)
    return apply_op("Reshape", name, tensor=tensor, shape=index_tensor(shape))


def index_tensor(value: Any) -> Any:
    """Turn a list of ints, Dimensions and scalar tensors into something convertible to an integer tensor."""
    if isinstance(value, (list, tuple)) and not any(isinstance(v, Tensor) for v in value):
        value = [v.value if isinstance(v, Dimension) else v for v in value]
        array = np.asarray(value)
        if array.dtype.kind in "iu":
            big = array.size and (array.max() > 2**31 - 1 or array.min() < -(2**31))
            return array.astype(np.int64 if big else np.int32)
        if array.size == 0:
            return array.astype(np.int32)
    return value


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Tensor:
    """Remove dimensions of size 1: all, or those in `axis`."""
    axis = squeeze_dims if axis is None else axis
    if axis is None:
        dims: list[int] = []
    else:
        dims = [int(axis)] if isinstance(axis, (int, np.integer)) else [int(a) for a in axis]
    return apply_op("Squeeze", name, input=input, squeeze_dims=dims)


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Tensor:
    """Insert a dimension of size 1 at `axis`."""
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return apply_op("ExpandDims", name, input=input, dim=axis)


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Repeat a tensor along its dimensions of size 1 to fill `shape`."""
    return apply_op("BroadcastTo", name, input=input, shape=index_tensor(shape))


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """Compute the shape that two shapes known in the step broadcast to."""
    x = convert_to_tensor(index_tensor(shape_x))
    return apply_op("BroadcastArgs", s0=x, s1=convert_to_tensor(index_tensor(shape_y), x.dtype))


def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """Compute the shape that two static shapes broadcast to."""
    return broadcast_static(as_shape(shape_x), as_shape(shape_y))
