"""Tensor lists item by item: making, growing, reading and writing them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.control.own_list import OwnList, changeable
from dtfctl.runtime.kernels.control.tensor_list import (
    TensorList,
    box,
    check_dtype,
    list_in,
    merged,
    resized,
    shape_from,
    shape_text,
    type_name,
    zeros_for,
)
from dtfctl.runtime.kernels.promises import CHANGES_LIST
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel


@register_kernel("EmptyTensorList", devices=CPU_GPU, host_inputs=("element_shape", "max_num_elements"))
def empty_tensor_list(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(shape: Any, most: Any) -> Any:
        if most.ndim:
            raise InvalidArgumentError(
                f"max_num_elements expected to be a scalar but got shape: {shape_text(most.shape)}"
            )
        return box(TensorList(dtype, shape_from(shape), (), int(most)))

    return run


@register_kernel("TensorListReserve", devices=CPU_GPU, host_inputs=("element_shape", "num_elements"))
def tensor_list_reserve(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(shape: Any, count: Any) -> Any:
        if count.ndim:
            raise InvalidArgumentError(
                f"The num_elements to reserve must be a tensor size 1, but got {shape_text(count.shape)}"
            )
        if count < 0:
            raise InvalidArgumentError(
                f"The num_elements to reserve must be a non negative number, but got {int(count)}"
            )
        return box(TensorList(dtype, shape_from(shape), [None] * int(count)))

    return run


@register_kernel("TensorListPushBack", devices=CPU_GPU, promises=CHANGES_LIST)
def tensor_list_push_back(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(handle: Any, value: Any) -> Any:
        held = changeable(handle)
        if held.element_shape.dims_or_none != value.shape:
            _check_item(held, value)
        if held.element_dtype is not dtype:
            check_dtype(held, dtype)
        if held.max_num_elements != -1 and len(held) >= held.max_num_elements:
            raise InvalidArgumentError(
                f"Tried to push item into a full list list size: {len(held)} max_num_elements: {held.max_num_elements}"
            )
        return held.pushed(value)

    return run


def _check_item(held: TensorList | OwnList, value: Any, where: str = "") -> None:
    if not held.takes(value.shape):
        raise InvalidArgumentError(
            f"Tried to append a tensor with incompatible shape to a list{where}. Op element shape: "
            f"{shape_text(value.shape)} list shape: {shape_text(held.element_shape)}"
        )


@register_kernel("TensorListPushBackBatch")
def tensor_list_push_back_batch(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(handles: Any, value: Any) -> Any:
        if value.ndim < 1:
            raise InvalidArgumentError(f"Expected tensor to be at least a vector, but saw shape: {shape_text(())}")
        if handles.ndim != 1:
            raise InvalidArgumentError(
                f"Expected input_handles to be a vector, but saw shape: {shape_text(handles.shape)}"
            )
        if value.shape[0] != handles.size:
            raise InvalidArgumentError(
                f"Expected tensor.shape[0] == input_handles.size, but saw {value.shape[0]} vs. {handles.size}"
            )
        out = np.empty(handles.shape, object)
        for b, held in enumerate(handles):
            if not isinstance(held, TensorList):
                raise InvalidArgumentError(f"Input handle at index {b} is not a list. Saw: '{held!r}'")
            _check_item(held, value[b, ...], f" at index {b}")
            if held.element_dtype is not dtype:
                raise InvalidArgumentError(
                    f"Invalid data type at index {b}; op elements {type_name(dtype)} but list elements "
                    f"{type_name(held.element_dtype)}"
                )
            out[b] = held.with_items(held.items.append(value[b, ...]))
        return out

    return run


@register_kernel("TensorListPopBack", devices=CPU_GPU, host_inputs=("element_shape",), promises=CHANGES_LIST)
def tensor_list_pop_back(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(handle: Any, shape: Any) -> Any:
        held = changeable(handle, dtype)
        size = len(held)
        if not size:
            raise InvalidArgumentError("Trying to pop from an empty list.")
        value = held.items[size - 1]
        if value is None:
            wanted = merged(shape_from(shape), held.element_shape)
            if not wanted.is_fully_defined():
                raise InvalidArgumentError(
                    "Trying to read an uninitialized tensor but element_shape is not fully defined."
                    f"{shape_text(wanted)}"
                )
            value = zeros_for(dtype, wanted.known())
        return held.popped(), value

    return run


@register_kernel("TensorListLength", devices=CPU_GPU, host_outputs=("length",))
def tensor_list_length(k: KernelBuild) -> Kernel:
    return lambda handle: np.array(len(list_in(handle)), np.int32)


@register_kernel("TensorListElementShape", devices=CPU_GPU, host_outputs=("element_shape",))
def tensor_list_element_shape(k: KernelBuild) -> Kernel:
    dtype = k.dtype("shape_type").np

    def run(handle: Any) -> Any:
        shape = list_in(handle).element_shape
        if shape.rank is None:
            return np.array(-1, dtype)
        return np.array([-1 if d is None else d for d in shape.as_list()], dtype)

    return run


@register_kernel("TensorListResize", devices=CPU_GPU, host_inputs=("size",))
def tensor_list_resize(k: KernelBuild) -> Kernel:
    def run(handle: Any, size: Any) -> Any:
        held = list_in(handle)
        if size.ndim:
            raise InvalidArgumentError("size must be a scalar")
        if size < 0:
            raise InvalidArgumentError(f"TensorListSlice expects size to be non-negative. Got: {int(size)}")
        return box(held.with_items(resized(held.items.to_list(), int(size))))

    return run


@register_kernel("TensorListGetItem", devices=CPU_GPU, host_inputs=("index", "element_shape"))
def tensor_list_get_item(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(handle: Any, index: Any, shape: Any) -> Any:
        held = list_in(handle, dtype)
        i = int(index)
        if not 0 <= i < len(held):
            raise InvalidArgumentError(f"Trying to access element {i} in a list with {len(held)} elements.")
        value = held.items[i]
        if value is not None:
            return value
        wanted = merged(shape_from(shape), held.element_shape)
        if not wanted.is_fully_defined():
            for item in held.items.to_list():
                if item is not None:
                    wanted = merged(wanted, item.shape)
        if not wanted.is_fully_defined():
            raise InvalidArgumentError(
                "Trying to read an uninitialized tensor but element_shape is not fully defined: "
                f"{shape_text(wanted)} and no list element is set."
            )
        return zeros_for(dtype, wanted.known())

    return run


@register_kernel("TensorListSetItem", devices=CPU_GPU, host_inputs=("index",), promises=CHANGES_LIST)
def tensor_list_set_item(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")
    may_grow = bool(k.attr("resize_if_index_out_of_bounds"))

    def run(handle: Any, index: Any, value: Any) -> Any:
        held = changeable(handle, dtype)
        if index.ndim:
            raise InvalidArgumentError(
                f"Expected argument 1 to be a scalar. Received a tensor of shape {shape_text(index.shape)}"
            )
        if not held.takes(value.shape):
            raise InvalidArgumentError(
                "Tried to set a tensor with incompatible shape at a list index. Item element shape: "
                f"{shape_text(value.shape)} list shape: {shape_text(held.element_shape)}"
            )
        i, size = int(index), len(held)
        if i < 0 or (i >= size and not may_grow):
            raise InvalidArgumentError(f"Trying to modify element {i} in a list with {size} elements.")
        return held.replaced(i, value)

    return run


@register_kernel("TensorListConcatLists", devices=CPU_GPU)
def tensor_list_concat_lists(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(a: Any, b: Any) -> Any:
        if a.shape != b.shape:
            raise InvalidArgumentError(
                f"Incompatible input TensorList tensor shapes: {shape_text(a.shape)} vs. {shape_text(b.shape)}"
            )
        out = np.empty(a.shape, object)
        for position in np.ndindex(a.shape):
            left, right = (list_in(box(x[position]), dtype) for x in (a, b))
            if not left.element_shape.is_compatible_with(right.element_shape):
                raise InvalidArgumentError(
                    f"Incompatible element shapes: {shape_text(left.element_shape)} vs. "
                    f"{shape_text(right.element_shape)}"
                )
            shape = left.element_shape.merge_with(right.element_shape)
            out[position] = TensorList(dtype, shape, left.items.to_list() + right.items.to_list())
        return out

    return run
