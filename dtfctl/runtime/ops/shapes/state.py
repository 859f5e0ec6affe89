"""Static shapes of variable ops."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape


@register_shape("Assign")
def _assign(op: Operation) -> list[Any]:
    ref, value = op.inputs[0].shape, op.inputs[1].shape
    if not op.attr("validate_shape", True):
        return [value]
    return [ref.merge_with(value)]


def variable_shape_of(handle: Tensor) -> TensorShape:
    """Find the declared shape of the variable behind a handle, as far as it is known."""
    held = getattr(handle, "_handle_data", None)
    if held is not None:
        return as_shape(held[1])
    if handle.op.type == "VarHandleOp":
        return as_shape(handle.op.attr("shape"))
    if handle.op.type in ("Identity", "Enter", "Switch", "RefIdentity"):
        return variable_shape_of(handle.op.inputs[0])
    return TensorShape(None)


@register_shape("ReadVariableOp")
def _read(op: Operation) -> list[Any]:
    return [variable_shape_of(op.inputs[0])]


@register_shape("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
def _assign_variable(op: Operation) -> list[Any]:
    variable_shape_of(op.inputs[0]).merge_with(op.inputs[1].shape)
    return []


@register_shape("VariableShape")
def _variable_shape(op: Operation) -> list[Any]:
    rank = variable_shape_of(op.inputs[0]).rank
    return [(rank,)]


@register_shape("ResourceGather")
def _resource_gather(op: Operation) -> list[Any]:
    params, indices = variable_shape_of(op.inputs[0]), op.inputs[1].shape
    batch = op.attr("batch_dims", 0)
    if params.rank is None or indices.rank is None:
        return [None]
    return [params[:batch].concatenate(indices[batch:]).concatenate(params[batch + 1 :])]


@register_shape("ResourceGatherNd")
def _resource_gather_nd(op: Operation) -> list[Any]:
    params, indices = variable_shape_of(op.inputs[0]), op.inputs[1].shape
    depth = None if indices.rank is None else indices[-1].value
    if params.rank is None or indices.rank is None or depth is None:
        return [None]
    return [indices[:-1].concatenate(params[depth:])]


@register_shape("ScatterAdd", "ScatterSub", "ScatterMul", "ScatterDiv", "ScatterMin", "ScatterMax", "ScatterUpdate")
def _scatter(op: Operation) -> list[Any]:
    ref, indices, updates = (t.shape for t in op.inputs)
    if updates.rank not in (None, 0) and ref.rank is not None and indices.rank is not None:
        updates.assert_is_compatible_with(indices.concatenate(ref[1:]))
    return [ref]
