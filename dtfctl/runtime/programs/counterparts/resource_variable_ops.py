"""`tensorflow.python.ops.resource_variable_ops`: variables behind handles, and the ops on these."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.ops.resource_variable import ResourceVariable
from dtfctl.runtime.programs.counterparts import generated

BaseResourceVariable = ResourceVariable
__all__ = ["BaseResourceVariable", "ResourceVariable", "is_resource_variable", "var_handle_op", "variable_shape"]


def is_resource_variable(var: Any) -> bool:
    """Tell whether a variable is reached through a handle."""
    return isinstance(var, ResourceVariable)


def var_handle_op(
    dtype: Any, shape: Any, container: str = "", shared_name: str = "", name: str | None = None, **kwargs: Any
) -> Any:
    """Return the handle of a variable that keeps its value in the task, by its shared name."""
    handle = make_op(
        "VarHandleOp",
        name,
        dtype=tf.as_dtype(dtype),
        shape=tf.TensorShape(shape),
        container=container,
        shared_name=shared_name,
    ).outputs[0]
    handle._handle_data = (tf.as_dtype(dtype), tf.TensorShape(shape))
    return handle


def variable_shape(handle: Any, out_type: Any = tf.int32) -> Any:
    """Return the sizes of the value behind a handle, as a constant where they are known."""
    _, shape = handle._handle_data
    if shape.is_fully_defined():
        return tf.constant(shape.as_list(), dtype=out_type)
    return tf.raw_ops.VariableShape(input=handle, out_type=out_type)


def __getattr__(name: str) -> Any:
    return getattr(generated, name)
