"""Lists as one tensor, and one tensor as lists: stacking, gathering, splitting and joining items."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.control.tensor_list import (
    TensorList,
    box,
    list_in,
    merged,
    resized,
    shape_from,
    shape_text,
    type_name,
    zeros_for,
)
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel


@register_kernel("TensorListStack", devices=CPU_GPU, host_inputs=("element_shape",))
def tensor_list_stack(k: KernelBuild) -> Kernel:
    dtype, expected = k.dtype("element_dtype"), int(k.attr("num_elements"))

    def run(handle: Any, shape: Any) -> Any:
        held = list_in(handle, dtype)
        if expected not in (-1, len(held)):
            raise InvalidArgumentError(
                f"Operation expected a list with {expected} elements but got a list with {len(held)} elements."
            )
        wanted = merged(shape_from(shape), held.element_shape)
        if not wanted.is_fully_defined() and not len(held):
            raise InvalidArgumentError(
                "Tried to stack elements of an empty list with non-fully-defined element_shape: " + shape_text(wanted)
            )
        return _stacked(
            k, held, held.items.to_list(), wanted, "stack list which only contains uninitialized tensors and has a"
        )

    return run


def _stacked(k: KernelBuild, held: TensorList, items: list[Any], wanted: TensorShape, doing: str) -> Any:
    """Items as one tensor, zeros for those not set."""
    if not held.element_shape.is_fully_defined():
        for item in items:
            if item is not None:
                wanted = merged(wanted, item.shape)
    if not wanted.is_fully_defined():
        raise InvalidArgumentError(f"Tried to {doing} non-fully-defined element_shape: {shape_text(wanted)}")
    shape, dtype = wanted.known(), held.element_dtype
    zeros = None
    for i, item in enumerate(items):
        if item is None:
            zeros = zeros_for(dtype, shape) if zeros is None else zeros
            items[i] = zeros if dtype.is_object else k.xp.asarray(zeros)
        elif item.shape != shape:
            raise InvalidArgumentError(
                f"Tried to stack a tensor of shape {shape_text(item.shape)} where {shape_text(shape)} is expected"
            )
    if not items:
        return np.empty((0, *shape), object) if dtype.is_object else k.xp.zeros((0, *shape), dtype.np)
    admit((len(items), *shape), 8 if dtype.is_object else np.dtype(dtype.np).itemsize)
    return np.stack(items) if dtype.is_object else k.xp.stack([k.xp.asarray(item) for item in items])


@register_kernel("TensorListGather", devices=CPU_GPU, host_inputs=("indices", "element_shape"))
def tensor_list_gather(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(handle: Any, indices: Any, shape: Any) -> Any:
        held = list_in(handle, dtype)
        wanted = merged(shape_from(shape), held.element_shape)
        if not wanted.is_fully_defined() and not indices.size:
            raise InvalidArgumentError(
                f"Tried to gather 0-elements from a list with non-fully-defined shape: {shape_text(wanted)}"
            )
        all_items = held.items.to_list()
        items = []
        for i in indices.reshape(-1).tolist():
            if not 0 <= i < len(all_items):
                raise InvalidArgumentError(f"Trying to gather element {i} in a list with {len(all_items)} elements.")
            items.append(all_items[i])
        return _stacked(k, held, items, wanted, "gather uninitialized tensors from a list with")

    return run


@register_kernel("TensorListFromTensor", devices=CPU_GPU, host_inputs=("element_shape",))
def tensor_list_from_tensor(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(tensor: Any, shape: Any) -> Any:
        if shape.ndim > 1:
            raise InvalidArgumentError(
                f"TensorListFromTensor: element_shape must be at most rank 1 but has the shape of "
                f"{shape_text(shape.shape)}"
            )
        wanted = shape_from(shape)
        _check_rows(tensor, wanted)
        # A transposed tensor is copied once here, and not row by row by all that want rows as they lie in memory.
        rows = k.xp_for("element_dtype").ascontiguousarray(tensor)
        return box(TensorList(dtype, wanted, [rows[i, ...] for i in range(rows.shape[0])]))

    return run


def _check_rows(tensor: Any, wanted: TensorShape) -> None:
    if tensor.ndim < 1:
        raise InvalidArgumentError(f"Tensor must be at least a vector, but saw shape: {shape_text(tensor.shape)}")
    if not wanted.is_compatible_with(tensor.shape[1:]):
        raise InvalidArgumentError(
            f"Specified a list with shape {shape_text(wanted)} from a tensor with shape {shape_text(tensor.shape[1:])}"
        )


@register_kernel(
    ("TensorListScatter", "TensorListScatterV2"),
    devices=CPU_GPU,
    host_inputs=("indices", "element_shape", "num_elements"),
)
def tensor_list_scatter(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(tensor: Any, indices: Any, shape: Any, count: Any = None) -> Any:
        if shape.ndim > 1:
            raise InvalidArgumentError(
                "TensorListScatter: element_shape must be at most rank 1 but has the shape of "
                f"{shape_text(shape.shape)}"
            )
        wanted = shape_from(shape)
        if count is not None and count.ndim:
            raise InvalidArgumentError("num_elements must be a scalar")
        size = -1 if count is None else int(count)
        if size < -1:
            raise InvalidArgumentError(f"TensorListScatter expects num_elements >= -1, found: {size}")
        _check_rows(tensor, wanted)
        places = indices.reshape(-1).tolist()
        if len(places) != tensor.shape[0]:
            raise InvalidArgumentError(
                f"Invalid number of rows in input tensor. Expected: {len(places)} Actual: {tensor.shape[0]}"
            )
        for i in places:
            if i < 0:
                raise InvalidArgumentError("Indices in TensorListScatter must all be non-negative.")
            if size != -1 and i >= size:
                raise InvalidArgumentError(
                    f"TensorListScatter: Trying to scatter at index {i} in list with size {size}"
                )
        items: list[Any] = resized([], max(max(places, default=-1) + 1, size))
        for row, i in enumerate(places):
            items[i] = tensor[row, ...]
        return box(TensorList(dtype, wanted, items))

    return run


@register_kernel("TensorListScatterIntoExistingList", devices=CPU_GPU, host_inputs=("indices",))
def tensor_list_scatter_into(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(handle: Any, tensor: Any, indices: Any) -> Any:
        held = list_in(handle)
        if held.element_dtype is not dtype:
            raise InvalidArgumentError(
                f"Invalid data types; input tensor type: {type_name(dtype)} list element_type: "
                f"{type_name(held.element_dtype)}"
            )
        if tensor.ndim < 1:
            raise InvalidArgumentError(f"Tensor must be at least a vector, but saw shape: {shape_text(tensor.shape)}")
        if indices.ndim != 1:
            raise InvalidArgumentError(
                f"Expected indices to be a vector, but received shape: {shape_text(indices.shape)}"
            )
        if indices.size != tensor.shape[0]:
            raise InvalidArgumentError(
                f"Expected len(indices) == tensor.shape[0], but saw: {indices.size} vs. {tensor.shape[0]}"
            )
        items, places = held.items.to_list(), indices.tolist()
        if min(places, default=0) < 0:
            raise InvalidArgumentError("Indices in TensorListScatterIntoExistingList must all be non-negative.")
        items = resized(items, max(len(items), max(places, default=-1) + 1))
        for row, i in enumerate(places):
            items[i] = tensor[row, ...]
        return box(held.with_items(items))

    return run


@register_kernel("TensorListSplit", devices=CPU_GPU, host_inputs=("element_shape", "lengths"))
def tensor_list_split(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")

    def run(tensor: Any, shape: Any, lengths: Any) -> Any:
        wanted = shape_from(shape)
        if wanted.rank is not None and wanted.rank < 1:
            raise InvalidArgumentError(
                f"TensorListSplit requires element_shape to be at least of rank 1, but saw: {shape_text(wanted)}"
            )
        if tensor.ndim < 1:
            raise InvalidArgumentError(f"Tensor must be at least a vector, but saw shape: {shape_text(tensor.shape)}")
        if wanted.rank is not None and not TensorShape(wanted.as_list()[1:]).is_compatible_with(tensor.shape[1:]):
            raise InvalidArgumentError(
                f"tensor shape {shape_text(tensor.shape)} is not compatible with element_shape {shape_text(wanted)}"
            )
        if lengths.ndim != 1:
            raise InvalidArgumentError(f"Expected lengths to be a vector, received shape: {shape_text(lengths.shape)}")
        items, start = [], 0
        for length in lengths.tolist():
            if length < 0:
                raise InvalidArgumentError(f"Invalid value in lengths: {length}")
            end = start + length
            if end > tensor.shape[0]:
                raise InvalidArgumentError(
                    f"Attempting to slice [{start}, {end}] from tensor with length {tensor.shape[0]}"
                )
            items.append(tensor[start:end])
            start = end
        if start != tensor.shape[0]:
            raise InvalidArgumentError(
                f"Unused values in tensor. Length of tensor: {tensor.shape[0]} Values used: {start}"
            )
        return box(TensorList(dtype, wanted, items))

    return run


@register_kernel(
    ("TensorListConcat", "TensorListConcatV2"), devices=CPU_GPU, host_inputs=("element_shape", "leading_dims")
)
def tensor_list_concat(k: KernelBuild) -> Kernel:
    dtype = k.dtype("element_dtype")
    is_v2 = k.node.op == "TensorListConcatV2"
    declared = None if is_v2 else k.attr("element_shape")

    def run(handle: Any, shape: Any = None, leading_dims: Any = None) -> Any:
        held = list_in(handle, dtype)
        first: int | None = None
        if is_v2:
            wanted = merged(shape_from(shape), held.element_shape)
        else:
            wanted = declared if declared is not None else TensorShape(None)
        if wanted.rank == 0:
            raise InvalidArgumentError(
                "Concat requires elements to be at least vectors, found scalars instead."
                if is_v2
                else "element_shape must not be empty: concat needs elements that are at least vectors."
            )
        inner = TensorShape(None) if wanted.rank is None else TensorShape(wanted.as_list()[1:])
        if is_v2 and wanted.rank is not None:
            first = wanted.as_list()[0]
        items = held.items.to_list()
        if not items and not inner.is_fully_defined():
            raise InvalidArgumentError(
                "All except the first dimension must be fully defined when concating an empty tensor list. "
                f"element_shape: {shape_text(inner)}"
            )
        if not held.element_shape.is_fully_defined():
            first, inner = _common_rows(items, first, inner)
        if not inner.is_fully_defined():
            raise InvalidArgumentError(
                "Trying to concat list with only uninitialized tensors but element_shape_except_first_dim is not "
                f"fully defined: {shape_text(inner)}"
            )
        given = [] if leading_dims is None else leading_dims.tolist()
        lengths = [_rows(i, item, first, given, is_v2) for i, item in enumerate(items)]
        parts = [
            zeros_for(dtype, (rows, *inner.known())) if item is None else item for item, rows in zip(items, lengths)
        ]
        xp = np if dtype.is_object else k.xp
        total = xp.concatenate(parts) if parts else xp.zeros((0, *inner.known()), dtype.np)
        return total, np.array(lengths, np.int64)

    return run


def _common_rows(items: list[Any], first: int | None, inner: TensorShape) -> tuple[int | None, TensorShape]:
    """Find the leading dimension all items have, if they agree, and the shape of their rows."""
    seen: set[int] = set()
    for i, item in enumerate(items):
        if item is None:
            continue
        if item.ndim < 1:
            raise InvalidArgumentError(f"Concat saw a scalar shape at index {i} but requires at least vectors.")
        inner = merged(inner, item.shape[1:])
        if first is not None and first != item.shape[0]:
            raise InvalidArgumentError(
                "First entry of element_shape input does not match the first dim of list element at index: "
                f"{i} Expected: {first} Actual: {item.shape[0]}"
            )
        seen.add(item.shape[0])
    if first is None and len(seen) == 1:
        first = seen.pop()
    return first, inner


def _rows(i: int, item: Any, first: int | None, given: list[int], is_v2: bool) -> int:
    """Count the rows item `i` has, or would have if it were set."""
    if item is not None:
        return int(item.shape[0])
    if i >= len(given) and first is not None:
        return first
    if not is_v2:
        raise InvalidArgumentError(
            "Concating lists with uninitialized tensors is not supported in this version of TensorListConcat. "
            "Consider updating your GraphDef to run the newer version."
        )
    if i >= len(given):
        raise InvalidArgumentError(
            f"List contains uninitialized tensor at index {i} but leading_dims has only {len(given)} elements."
        )
    return given[i]
