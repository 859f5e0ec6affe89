"""TensorProtos made and read by programs, and what counts as a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.protocol import tensor_pb2
from dtfctl.runtime.framework.composite import CompositeTensor
from dtfctl.runtime.framework.convert import to_array
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_repeated, encode_tensor
from dtfctl.runtime.framework.tensor_shape import as_shape


def make_tensor_proto(
    values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False, allow_broadcast: bool = False
) -> tensor_pb2.TensorProto:
    """Make the TensorProto of a Python value or array.

    Args:
        dtype: the element type; inferred as for `tf.constant` when None.
        shape: the proto's shape; fewer values than it has are taken as ending in repetitions of the last.
        verify_shape: the values must have that shape.
        allow_broadcast: only a single value may be repeated.

    Raises:
        TypeError: the values do not fit the type, or the shape under one of the two flags.
        ValueError: there are more values than the shape has, or both flags are given.
    """
    if allow_broadcast and verify_shape:
        raise ValueError("allow_broadcast and verify_shape are not both allowed.")
    if isinstance(values, tensor_pb2.TensorProto):
        return values
    if values is None:
        raise ValueError("None values not supported.")
    wanted = None if dtype is None else as_dtype(dtype).base_dtype
    array = to_array(values, wanted)
    element = wanted or as_dtype(array.dtype)
    dims = array.shape if shape is None else as_shape(shape).known()
    count = int(np.prod(dims, dtype=np.int64))
    mismatch = f"Expected Tensor's shape: {tuple(dims)}, but got {array.shape}."
    if verify_shape and array.shape != tuple(dims):
        raise TypeError(mismatch)
    if allow_broadcast and array.size != count and array.shape not in ((), (1,)):
        raise TypeError(mismatch)
    if array.size > count:
        raise ValueError(f"Too many elements provided. Takes at most {count}, but got {array.size}.")
    if array.size == 1 and not element.is_object:
        return encode_repeated(array.reshape(-1)[0], dims, element)
    flat = array.reshape(-1)
    if array.size < count and array.size:
        flat = np.concatenate([flat, np.full(count - flat.size, flat[-1], flat.dtype)])
    return encode_tensor(flat.reshape(dims), element)


def make_ndarray(tensor: tensor_pb2.TensorProto) -> np.ndarray[Any, Any]:
    """Decode the array of a TensorProto; strings as an object array of bytes."""
    return decode_tensor(tensor)


def is_tensor(x: Any) -> bool:
    """Tell whether a value is a tensor of any kind: dense, sparse, ragged, slices, or a variable."""
    return isinstance(x, (Tensor, CompositeTensor)) or hasattr(x, "_as_graph_element")
