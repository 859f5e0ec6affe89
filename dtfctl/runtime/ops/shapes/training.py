"""Static shapes of optimizer updates: the variable's, which the gradient must match."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.op_signature import find_signature, op_names
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.framework.registries import register_shape
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.shapes.state import variable_shape_of


def _update(op: Operation) -> list[Any]:
    names = [arg.name for arg in op.signature.inputs]
    by_handle = op.type.startswith("Resource")
    merged: TensorShape = variable_shape_of(op.inputs[0]) if by_handle else op.inputs[0].shape
    for arg, tensor in zip(op.signature.inputs, op.inputs):
        is_variable = arg.is_ref or (arg.dtype is not None and arg.dtype.kind == "resource")
        if is_variable:
            merged = merged.merge_with(variable_shape_of(tensor) if by_handle else tensor.shape)
        elif arg.name not in ("grad", "delta", "indices"):
            tensor.shape.merge_with(())
    grad = op.inputs[names.index("delta" if "delta" in names else "grad")].shape
    if "indices" in names:
        indices = op.inputs[names.index("indices")].shape.with_rank(1)
        if merged.rank is not None:
            grad.merge_with(TensorShape([indices[0]]).concatenate(merged[1:]))
    else:
        merged = merged.merge_with(grad)
    return [merged]


def _register() -> None:
    for name in op_names():
        signature = find_signature(name)
        if "Apply" in name and signature is not None and signature.inputs and signature.inputs[0].name == "var":
            register_shape(name)(_update)


_register()
