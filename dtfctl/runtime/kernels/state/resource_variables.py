"""Variables behind handles (TensorFlow's resource_variable_ops)."""

from __future__ import annotations

import math
import uuid
from typing import Any

import numpy as np

from dtfctl.runtime.framework.dtypes import WIRE_NAME
from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from dtfctl.runtime.framework.resource_handle import ResourceHandle
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.admission import MOST_UNSEEN, admit
from dtfctl.runtime.kernels.cuda.gather import gather_on_gpu
from dtfctl.runtime.kernels.promises import LEAVES_STATE, LETS_GO, Promises
from dtfctl.runtime.kernels.registry import CPU_GPU, INDICES, NUMBERS, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import (
    ANONYMOUS_NAME,
    check_device,
    handle_of,
    shape_text,
    variable_finder,
)
from dtfctl.runtime.kernels.state.scatter_update import check_rows
from dtfctl.runtime.kernels.state.variables import count_up
from dtfctl.runtime.kernels.variable import Variable

_HANDLE = ("resource",)


@register_kernel("VarHandleOp", devices=CPU_GPU, host_outputs=_HANDLE, promises=LEAVES_STATE)
def var_handle(k: KernelBuild) -> Kernel:
    held = ((k.dtype("dtype"), k.attr("shape") or TensorShape(None)),)
    if k.text_attr("shared_name") != ANONYMOUS_NAME:
        constant = object_scalar(ResourceHandle(k.device.name, k.container, k.resource_name, "Variable", held))
        return lambda: constant

    def anonymous() -> Any:
        name = f"{k.text_attr('debug_name') or k.node.name}_{uuid.uuid4().hex}"
        k.resources.create(k.container, name, Variable(held[0][0], held[0][1], name))
        return object_scalar(ResourceHandle(k.device.name, k.container, name, "Variable", held))

    return anonymous


def _missing(handle: ResourceHandle, reason: str) -> FailedPreconditionError:
    return FailedPreconditionError(
        f"Could not find variable {handle.name}. This could mean that the variable has been deleted. In TF1, it can "
        f"also mean the variable is uninitialized. Debug info: container={handle.container}, "
        f"status error message={reason}"
    )


@register_kernel("ReadVariableOp", devices=CPU_GPU, host_inputs=_HANDLE, promises=LEAVES_STATE)
def read_variable(k: KernelBuild) -> Kernel:
    dtype, find = k.dtype("dtype").base_dtype, variable_finder(k)

    def kernel(resource: Any) -> Any:
        try:
            variable = find(resource)
        except NotFoundError as e:
            raise _missing(handle_of(resource), e.message) from None
        if variable.dtype is not dtype:
            raise InvalidArgumentError(
                f"Trying to read variable with wrong dtype. Expected {WIRE_NAME[dtype]} got {WIRE_NAME[variable.dtype]}"
            )
        if not variable.is_initialized:
            handle = handle_of(resource)
            raise _missing(handle, f"Resource {handle.container}/{handle.name}/Variable is not initialized.")
        return variable.read()

    return kernel


@register_kernel("AssignVariableOp", devices=CPU_GPU, host_inputs=_HANDLE)
def assign_variable(k: KernelBuild) -> Kernel:
    dtype, validate, resources = k.dtype("dtype").base_dtype, k.attr("validate_shape", False), k.resources

    def kernel(resource: Any, value: Any) -> None:
        handle = handle_of(resource)
        check_device(k, handle)
        shape = handle.dtypes_and_shapes[0][1] if handle.dtypes_and_shapes else TensorShape(None)
        variable = resources.lookup_or_create(
            handle.container, handle.name, Variable, lambda: Variable(dtype, shape, handle.name)
        )
        if variable.dtype is not dtype:
            raise InvalidArgumentError(
                f"Trying to assign variable with wrong dtype. Expected {WIRE_NAME[variable.dtype]} got "
                f"{WIRE_NAME[dtype]}"
            )
        with variable.lock:
            if validate and variable.is_initialized and variable.read().shape != value.shape:
                raise InvalidArgumentError(
                    "Trying to assign to variable with tensor with wrong shape. Expected "
                    f"{shape_text(variable.read().shape)} got {shape_text(value.shape)}"
                )
            variable.assign(value)

    return kernel


@register_kernel(
    ("AssignAddVariableOp", "AssignSubVariableOp"),
    devices=CPU_GPU,
    host_inputs=_HANDLE,
    promises=LETS_GO,
    dtype=NUMBERS,
)
def assign_update_variable(k: KernelBuild) -> Kernel:
    find = variable_finder(k)
    add = k.node.op == "AssignAddVariableOp"
    function = k.xp.add if add else k.xp.subtract

    def kernel(resource: Any, value: Any) -> None:
        variable = find(resource)
        with variable.lock:
            current = variable.read()
            if current.shape != value.shape:
                raise InvalidArgumentError(
                    f"Cannot update variable with shape {shape_text(current.shape)} using a Tensor with shape "
                    f"{shape_text(value.shape)}, shapes must be equal."
                )
            if current.dtype != value.dtype:
                raise InvalidArgumentError("DType of variable handle and value does not match.")
            del current
            variable.update(lambda now, then: function(now, value, out=then))

    return kernel


@register_kernel(
    "VarIsInitializedOp",
    devices=CPU_GPU,
    host_inputs=_HANDLE,
    host_outputs=("is_initialized",),
    promises=LEAVES_STATE,
)
def var_is_initialized(k: KernelBuild) -> Kernel:
    find = variable_finder(k)

    def kernel(resource: Any) -> Any:
        try:
            return np.bool_(find(resource).is_initialized)
        except NotFoundError:
            return np.bool_(False)

    return kernel


@register_kernel(
    "VariableShape", devices=CPU_GPU, host_inputs=("input",), host_outputs=("output",), promises=LEAVES_STATE
)
def variable_shape(k: KernelBuild) -> Kernel:
    find, out_type = variable_finder(k), k.dtype("out_type").np

    def kernel(resource: Any) -> Any:
        variable = find(resource)
        with variable.lock:
            return np.array(variable.read().shape, out_type)

    return kernel


@register_kernel("DestroyResourceOp", devices=CPU_GPU, host_inputs=_HANDLE)
def destroy_resource(k: KernelBuild) -> Kernel:
    ignore = k.attr("ignore_lookup_error", True)

    def kernel(resource: Any) -> None:
        handle = handle_of(resource)
        check_device(k, handle)
        try:
            k.resources.delete(handle.container, handle.name)
        except NotFoundError:
            if not ignore:
                raise

    return kernel


@register_kernel("DisableCopyOnRead", devices=CPU_GPU, host_inputs=_HANDLE)
def disable_copy_on_read(k: KernelBuild) -> Kernel:
    find = variable_finder(k)

    def kernel(resource: Any) -> None:
        # Reads never copy here, so there is no mode to leave; only the variable must exist.
        try:
            find(resource)
        except NotFoundError as e:
            raise _missing(handle_of(resource), e.message) from None

    return kernel


@register_kernel("ResourceCountUpTo", T=INDICES)
def resource_count_up_to(k: KernelBuild) -> Kernel:
    find, limit, dtype = variable_finder(k), k.attr("limit"), k.dtype("T")

    def kernel(resource: Any) -> Any:
        variable = find(resource)
        if variable.dtype is not dtype:
            raise InvalidArgumentError(
                f"Variable dtype {WIRE_NAME[variable.dtype]} does not match expected {WIRE_NAME[dtype]}"
            )
        return count_up(variable, limit)

    return kernel


@register_kernel(
    "ResourceGather",
    devices=CPU_GPU,
    host_inputs=_HANDLE,
    promises=Promises(lets_go=True, looks_up=True, leaves_state=True),
    Tindices=INDICES,
)
def resource_gather(k: KernelBuild) -> Kernel:
    find, batch_dims, xp = variable_finder(k), k.attr("batch_dims", 0), k.xp

    def kernel(resource: Any, indices: Any) -> Any:
        variable = find(resource)
        # The lock is held so that no writer finds the array shared and copies a whole table for one look-up.
        with variable.lock:
            shape = variable.read().shape
            if not shape:
                raise InvalidArgumentError("params must be at least 1 dimensional")
            if len(shape) <= batch_dims:
                raise InvalidArgumentError(
                    f"params must have at least 1 + {batch_dims} dimensions but got shape {shape_text(shape)}"
                )
            if shape[:batch_dims] != indices.shape[:batch_dims]:
                raise InvalidArgumentError(
                    f"params.shape{shape_text(shape[:batch_dims])} and indices.shape"
                    f"{shape_text(indices.shape[:batch_dims])} must match in the first {batch_dims} dimensions"
                )
            if xp is not np:
                return gather_on_gpu(xp, variable.read(), indices, batch_dims, batch_dims)
            check_rows(indices, shape[batch_dims])
            row = shape[batch_dims + 1 :]
            if indices.size * math.prod(row) > MOST_UNSEEN:
                admit((*indices.shape, *row), variable.read().dtype.itemsize)
            if batch_dims == 0:
                table = variable.read()
                # numpy hands out the object itself, not an array, when one item of a vector of objects is taken.
                return table[indices, ...] if table.dtype == object else table.take(indices, axis=0)
            outer = xp.indices(indices.shape, sparse=True)[:batch_dims]
            return variable.read()[(*outer, indices)]

    return kernel


@register_kernel("ResourceGatherNd", devices=CPU_GPU, host_inputs=_HANDLE, promises=LEAVES_STATE, Tindices=INDICES)
def resource_gather_nd(k: KernelBuild) -> Kernel:
    find = variable_finder(k)

    def kernel(resource: Any, indices: Any) -> Any:
        variable = find(resource)
        with variable.lock:
            shape = variable.read().shape
            if not shape:
                raise InvalidArgumentError("params must be at least a vector")
            if indices.ndim < 1:
                raise InvalidArgumentError("indices must be at least a vector")
            depth = indices.shape[-1]
            if depth > len(shape):
                raise InvalidArgumentError(
                    f"index innermost dimension length must be <= params rank; saw: {depth} vs. {len(shape)}"
                )
            limits = k.xp.asarray(np.array(shape[:depth], np.int64))
            bad = ((indices < 0) | (indices >= limits)).any(axis=-1)
            if bad.any():
                position = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(bad)))[: bad.ndim]
                raise InvalidArgumentError(
                    f"indices{shape_text(position) if bad.ndim else ''} = {_row(indices[position])} does not index "
                    f"into param shape {shape_text(shape)}, node name: {k.node.name}"
                )
            if depth == 0:
                return np.broadcast_to(variable.read(), indices.shape[:-1] + shape).copy()
            return variable.read()[tuple(indices[..., i] for i in range(depth))]

    return kernel


def _row(row: Any) -> str:
    return "[" + ", ".join(str(int(i)) for i in np.atleast_1d(row)) + "]"
