"""`tensorflow.python.ops.list_ops`: lists of tensors that are values of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime import api as tf
from dtfctl.runtime.programs.counterparts import generated


def _build_element_shape(shape: Any) -> Any:
    """Write a shape as the ops of lists take it: -1 for what is not known."""
    if isinstance(shape, tf.Tensor):
        return shape
    if isinstance(shape, tf.TensorShape):
        shape = shape.as_list() if shape.rank is not None else None
    if shape is None:
        return -1
    if isinstance(shape, (np.ndarray, np.generic)) or not shape:
        return tf.convert_to_tensor(shape, dtype=tf.int32)
    sizes = [getattr(d, "value", d) if not isinstance(d, tf.Tensor) else d for d in shape]
    return [-1 if d is None else d for d in sizes]


def empty_tensor_list(
    element_shape: Any, element_dtype: Any, max_num_elements: Any = None, name: str | None = None
) -> Any:
    """Make a list without elements."""
    return tf.raw_ops.EmptyTensorList(
        element_shape=_build_element_shape(element_shape),
        element_dtype=element_dtype,
        max_num_elements=-1 if max_num_elements is None else max_num_elements,
        name=name,
    )


def tensor_list_reserve(element_shape: Any, num_elements: Any, element_dtype: Any, name: str | None = None) -> Any:
    """Make a list of so many elements that are not set."""
    shape = _build_element_shape(element_shape)
    return tf.raw_ops.TensorListReserve(
        element_shape=shape, num_elements=num_elements, element_dtype=element_dtype, name=name
    )


def tensor_list_from_tensor(tensor: Any, element_shape: Any, name: str | None = None) -> Any:
    """Make a list of a tensor's rows."""
    shape = _build_element_shape(element_shape)
    return tf.raw_ops.TensorListFromTensor(tensor=tensor, element_shape=shape, name=name)


def tensor_list_get_item(
    input_handle: Any, index: Any, element_dtype: Any, element_shape: Any = None, name: str | None = None
) -> Any:
    """Return one element."""
    return tf.raw_ops.TensorListGetItem(
        input_handle=input_handle,
        index=index,
        element_shape=_build_element_shape(element_shape),
        element_dtype=element_dtype,
        name=name,
    )


def tensor_list_pop_back(input_handle: Any, element_dtype: Any, name: str | None = None) -> Any:
    """Return the list without its last element, and that."""
    return generated.tensor_list_pop_back(input_handle, element_shape=-1, element_dtype=element_dtype, name=name)


def tensor_list_gather(
    input_handle: Any, indices: Any, element_dtype: Any, element_shape: Any = None, name: str | None = None
) -> Any:
    """Return elements as the rows of a tensor."""
    return tf.raw_ops.TensorListGather(
        input_handle=input_handle,
        indices=indices,
        element_shape=_build_element_shape(element_shape),
        element_dtype=element_dtype,
        name=name,
    )


def tensor_list_scatter(
    tensor: Any, indices: Any, element_shape: Any = None, input_handle: Any = None, name: str | None = None
) -> Any:
    """Put a tensor's rows at places of a list: a new one, or `input_handle`."""
    if input_handle is not None:
        return tf.raw_ops.TensorListScatterIntoExistingList(
            input_handle=input_handle, tensor=tensor, indices=indices, name=name
        )
    return tf.raw_ops.TensorListScatterV2(
        tensor=tensor,
        indices=indices,
        element_shape=_build_element_shape(element_shape),
        num_elements=-1,
        name=name,
    )


def tensor_list_stack(
    input_handle: Any,
    element_dtype: Any,
    num_elements: int = -1,
    element_shape: Any = None,
    name: str | None = None,
) -> Any:
    """Return all elements as the rows of a tensor."""
    return tf.raw_ops.TensorListStack(
        input_handle=input_handle,
        element_shape=_build_element_shape(element_shape),
        element_dtype=element_dtype,
        num_elements=num_elements,
        name=name,
    )


def tensor_list_concat(
    input_handle: Any, element_dtype: Any, element_shape: Any = None, name: str | None = None
) -> Any:
    """Return the elements joined along their first dimension."""
    return tf.raw_ops.TensorListConcatV2(
        input_handle=input_handle,
        element_dtype=element_dtype,
        element_shape=_build_element_shape(element_shape),
        leading_dims=tf.constant([], dtype=tf.int64),
        name=name,
    )[0]


def tensor_list_split(tensor: Any, element_shape: Any, lengths: Any, name: str | None = None) -> Any:
    """Make a list of parts of a tensor, of so many rows each."""
    shape = _build_element_shape(element_shape)
    return tf.raw_ops.TensorListSplit(tensor=tensor, element_shape=shape, lengths=lengths, name=name)


def tensor_list_set_item(
    input_handle: Any, index: Any, item: Any, resize_if_index_out_of_bounds: bool = False, name: str | None = None
) -> Any:
    """Return the list with another element at a place."""
    return tf.raw_ops.TensorListSetItem(
        input_handle=input_handle,
        index=index,
        item=item,
        resize_if_index_out_of_bounds=resize_if_index_out_of_bounds,
        name=name,
    )
