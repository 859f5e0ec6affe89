"""Kernels of the TensorArray ops, versions 1 to 3. They differ only in what their handle is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.admission import admit
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import (
    handle_key,
    handle_scalar,
    scalar,
    shape_text,
    string_ref,
    type_text,
)
from dtfctl.runtime.kernels.data_flow.tensor_array import TensorArray
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel

_ARRAYS, _GRADS = "_tensor_arrays", "_tensor_array_grads"
_COUNTER = itertools.count()
_INDEX_SHAPE = "TensorArray index must be scalar, but had shape: "


def _versions(stem: str, *suffixes: str) -> tuple[str, ...]:
    return tuple(stem + s for s in suffixes or ("", "V2", "V3"))


def _find(step: StepContext, handle: Any) -> TensorArray:
    container, name = handle_key(handle, "Tensor array")
    # Old handles are [container, name], resource handles carry the whole key as their name.
    key = name if container.startswith("__per_step") else container + name
    return step.step_resources.lookup("", key, TensorArray)


def _output(k: KernelBuild, step: StepContext, group: str, name: str) -> Any:
    """Make the node's outputs for an array: handle in the form of its version, and the flow where there is one."""
    kind = k.node.output_types[0]
    if kind.is_ref:
        handle: Any = string_ref(group, name)
    elif kind.kind == "string":
        handle = object_array([group.encode(), name.encode()], (2,))
    else:
        handle = handle_scalar(k.device.name, f"__per_step_{step.step_id}", group + name, TensorArray.type_name)
    return (handle, k.xp.zeros((), np.float32)) if len(k.node.output_types) == 2 else handle


@register_kernel(_versions("TensorArray"), step=True, devices=CPU_GPU, host_inputs=("size",), host_outputs=("handle",))
def tensor_array(k: KernelBuild) -> Kernel:
    dtype, element_shape = k.dtype("dtype"), k.attr("element_shape")
    stem = k.text_attr("tensor_array_name") or k.node.name
    dynamic, clear = k.attr("dynamic_size"), k.attr("clear_after_read")
    identical = bool(k.attr("identical_element_shapes", False))

    def run(step: StepContext, size: Any) -> Any:
        count = scalar(size, "TensorArray size must be scalar, but had shape: ")
        if count < 0:
            raise InvalidArgumentError("Size should be >= 0.")
        name = f"{stem}_{next(_COUNTER)}"
        array = TensorArray(
            name,
            dtype,
            count,
            element_shape,
            identical_element_shapes=identical,
            dynamic_size=dynamic,
            clear_after_read=clear,
        )
        step.step_resources.create("", _ARRAYS + name, array)
        return _output(k, step, _ARRAYS, name)

    return run


@register_kernel(
    (*_versions("TensorArrayGrad"), "TensorArrayGradWithShape"),
    step=True,
    devices=CPU_GPU,
    host_inputs=("handle", "shape_to_prepend"),
    host_outputs=("grad_handle",),
)
def tensor_array_grad(k: KernelBuild) -> Kernel:
    suffix = "@" + k.text_attr("source")

    def run(step: StepContext, handle: Any, flow: Any, prepend: Any = None) -> Any:
        container, name = handle_key(handle, "Tensor array")
        if container.startswith("__per_step"):
            if not name.startswith(_ARRAYS):
                raise InvalidArgumentError(f"Wrong input container. {name}")
            name = name[len(_ARRAYS) :]
        elif container != _ARRAYS:
            raise InvalidArgumentError(
                f"Input container should be '_tensor_arrays',  but received '{container}'",
            )
        source = step.step_resources.lookup("", _ARRAYS + name, TensorArray)
        source.dynamic_size = False
        size = source.size()
        if not source.gradients_allowed:
            raise InvalidArgumentError(
                f"Unable to create a gradients TensorArray for {name}.  Perhaps you used the multiple_writes_aggregate "
                "flag on a previous write?  Gradient calculation is impossible when multiple writes are performed to "
                "the same index."
            )
        lead = () if prepend is None else tuple(int(d) for d in prepend)
        grad_name = name + suffix

        def create() -> TensorArray:
            array = TensorArray(
                grad_name,
                source.dtype,
                size,
                TensorShape(lead).concatenate(source.element_shape),
                identical_element_shapes=source.identical_element_shapes,
                is_grad=True,
                marked_size=source.marked_size,
            )
            array.gradient_shapes_from(source, lead)
            return array

        step.step_resources.lookup_or_create("", _GRADS + grad_name, TensorArray, create)
        return _output(k, step, _GRADS, grad_name)

    return run


def _check_write(array: TensorArray, dtype: Any) -> None:
    if array.dtype is not dtype:
        raise InvalidArgumentError(
            f"TensorArray dtype is {type_text(array.dtype)} but Op is trying to write dtype {type_text(dtype)}."
        )


def _check_read(array: TensorArray, dtype: Any) -> None:
    if array.dtype is not dtype:
        raise InvalidArgumentError(
            f"TensorArray dtype is {type_text(array.dtype)} but Op requested dtype {type_text(dtype)}."
        )


@register_kernel(_versions("TensorArrayWrite"), step=True, devices=CPU_GPU, host_inputs=("handle", "index"))
def tensor_array_write(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T")

    def run(step: StepContext, handle: Any, index: Any, value: Any, flow: Any) -> Any:
        at = scalar(index, _INDEX_SHAPE)
        array = _find(step, handle)
        _check_write(array, dtype)
        array.write(at, value)
        return flow

    return run


@register_kernel(_versions("TensorArrayRead"), step=True, devices=CPU_GPU, host_inputs=("handle", "index"))
def tensor_array_read(k: KernelBuild) -> Kernel:
    dtype, xp = k.dtype("dtype"), k.xp

    def run(step: StepContext, handle: Any, index: Any, flow: Any) -> Any:
        at = scalar(index, _INDEX_SHAPE)
        array = _find(step, handle)
        _check_read(array, dtype)
        return array.read(at, xp)

    return run


def _vector(indices: Any) -> list[int]:
    if indices.ndim != 1:
        raise InvalidArgumentError(f"Expected indices to be a vector, but received shape: {shape_text(indices.shape)}")
    numbers: list[int] = indices.tolist()
    return numbers


@register_kernel(
    ("TensorArrayPack", *_versions("TensorArrayGather")), step=True, devices=CPU_GPU, host_inputs=("handle", "indices")
)
def tensor_array_gather(k: KernelBuild) -> Kernel:
    dtype, shape, xp = k.dtype("dtype"), k.attr("element_shape"), k.xp
    pack = k.node.op == "TensorArrayPack"

    def run(step: StepContext, handle: Any, *rest: Any) -> Any:
        array = _find(step, handle)
        _check_read(array, dtype)
        array.merge_element_shape(shape)
        indices = list(range(array.pack_size())) if pack else _vector(rest[0])
        if not indices:
            if not shape.is_fully_defined():
                raise UnimplementedError(
                    f"TensorArray has size zero, but element shape {shape_text(shape)} is not fully defined. Currently "
                    "only static shapes are supported when packing zero-size TensorArrays."
                )
            return xp.zeros((0, *shape.known()), dtype.np)
        values = array.read_many(indices, xp)
        first = values[0].shape
        if not shape.is_compatible_with(first):
            raise InvalidArgumentError(
                f"TensorArray was passed element_shape {shape_text(shape)} which does not match the Tensor at index 0: "
                f"{shape_text(first)}"
            )
        for i, value in enumerate(values):
            if value.shape != first:
                raise InvalidArgumentError(
                    f"TensorArray has inconsistent shapes.  Index 0 has shape: {shape_text(first)} but index {i} has "
                    f"shape: {shape_text(value.shape)}"
                )
        admit((len(values), *first), values[0].dtype.itemsize)
        return xp.stack(values) if not dtype.is_object else _stack_objects(values)

    return run


def _stack_objects(values: list[Any]) -> Any:
    out = np.empty((len(values), *np.shape(values[0])), object)
    for i, value in enumerate(values):
        out[i] = value[()] if value.ndim == 0 else value
    return out


@register_kernel(
    _versions("TensorArrayConcat"), step=True, devices=CPU_GPU, host_inputs=("handle",), host_outputs=("lengths",)
)
def tensor_array_concat(k: KernelBuild) -> Kernel:
    dtype, rest_shape, xp = k.dtype("dtype"), k.attr("element_shape_except0"), k.xp

    def run(step: StepContext, handle: Any, flow: Any) -> Any:
        array = _find(step, handle)
        _check_read(array, dtype)
        size = array.pack_size()
        if size == 0:
            if not rest_shape.is_fully_defined():
                raise UnimplementedError(
                    f"TensorArray has size zero, but element_shape_except0 {shape_text(rest_shape)} is not fully "
                    "defined. Currently only static shapes are supported when concatenating zero-size TensorArrays."
                )
            return xp.zeros((0, *rest_shape.known()), dtype.np), np.zeros(0, np.int64)
        values = array.read_many(list(range(size)), xp)
        for i, value in enumerate(values):
            if value.ndim == 0:
                raise InvalidArgumentError(
                    f"Concat saw a scalar shape at index {i} but requires at least vectors.  Did you mean to call pack?"
                )
            if i == 0 and not rest_shape.is_compatible_with(value.shape[1:]):
                raise InvalidArgumentError(
                    f"TensorArray was passed element_shape_except0 {shape_text(rest_shape)} but index 0 has (excepting "
                    f"dimension 0) shape: {shape_text(value.shape[1:])} which does not match."
                )
            if value.shape[1:] != values[0].shape[1:]:
                raise InvalidArgumentError(
                    "TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: "
                    f"{shape_text(values[0].shape[1:])} but index {i} has (excepting dimension 0) shape: "
                    f"{shape_text(value.shape[1:])}"
                )
        return xp.concatenate(values), np.array([v.shape[0] for v in values], np.int64)

    return run


@register_kernel(
    ("TensorArrayUnpack", *_versions("TensorArrayScatter")),
    step=True,
    devices=CPU_GPU,
    host_inputs=("handle", "indices"),
)
def tensor_array_scatter(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T")
    unpack = k.node.op == "TensorArrayUnpack"

    def run(step: StepContext, handle: Any, *rest: Any) -> Any:
        value, flow = rest[-2:]
        array = _find(step, handle)
        _check_write(array, dtype)
        if value.ndim == 0:
            raise InvalidArgumentError(
                f"Input value for unpack must be at least a vector but received shape: {shape_text(value.shape)}"
            )
        size, count = array.size(), value.shape[0]
        if unpack:
            indices = list(range(count))
        else:
            indices = _vector(rest[0])
            if len(indices) != count:
                raise InvalidArgumentError(
                    f"Expected len(indices) == values.shape[0], but saw: {len(indices)} vs. {count}"
                )
        highest = max(indices, default=-1)
        if array.dynamic_size:
            size = max(size, highest + 1)
        if unpack:
            if count != size:
                raise InvalidArgumentError(
                    f"Input value must have first dimension equal to the array size ({count} vs. {size})"
                )
            array.set_marked_size(size)
        elif highest >= size:
            raise InvalidArgumentError(f"Max scatter index must be < array size ({highest} vs. {size})")
        array.write_many(indices, _rows(value))
        return flow

    return run


def _rows(value: Any) -> list[Any]:
    """Split a tensor into slices along axis 0, each an array (0-d ones too)."""
    return [value[i, ...] for i in range(value.shape[0])]


@register_kernel(_versions("TensorArraySplit"), step=True, devices=CPU_GPU, host_inputs=("handle", "lengths"))
def tensor_array_split(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T")

    def run(step: StepContext, handle: Any, value: Any, lengths: Any, flow: Any) -> Any:
        array = _find(step, handle)
        if lengths.ndim != 1:
            raise InvalidArgumentError(
                f"Expected lengths to be a vector, received shape: {shape_text(lengths.shape)}",
            )
        if value.ndim == 0:
            raise InvalidArgumentError(
                f"Expected value to be at least a vector, but received shape: {shape_text(value.shape)}"
            )
        ends = np.cumsum(lengths).tolist()
        total = ends[-1] if ends else 0
        if total != value.shape[0]:
            raise InvalidArgumentError(
                "Expected sum of lengths to be equal to values.shape[0], but sum of lengths is "
                f"{total} and value's shape is: {shape_text(value.shape)}"
            )
        size, count = array.size(), len(ends)
        if array.dynamic_size:
            size = max(size, count)
        if size != count:
            raise InvalidArgumentError(
                f"TensorArray's size is not equal to the size of lengths ({size} vs. {count}), and the TensorArray is "
                "not marked as dynamically resizeable"
            )
        _check_write(array, dtype)
        array.set_marked_size(size)
        starts = [0, *ends[:-1]]
        array.write_many(list(range(count)), [value[a:b] for a, b in zip(starts, ends)])
        return flow

    return run


@register_kernel(
    _versions("TensorArraySize"), step=True, devices=CPU_GPU, host_inputs=("handle",), host_outputs=("size",)
)
def tensor_array_size(k: KernelBuild) -> Kernel:
    return lambda step, handle, flow: np.int32(_find(step, handle).size())


@register_kernel(_versions("TensorArrayClose"), step=True, devices=CPU_GPU, host_inputs=("handle",))
def tensor_array_close(k: KernelBuild) -> Kernel:
    return lambda step, handle: _find(step, handle).close()
