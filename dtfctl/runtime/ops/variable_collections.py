"""The variables of a graph, by collection, and the ops that initialise and check them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys, name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.variables import Variable


def global_variables(scope: str | None = None) -> list[Any]:
    return context.get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


def local_variables(scope: str | None = None) -> list[Any]:
    return context.get_default_graph().get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope: str | None = None) -> list[Any]:
    return context.get_default_graph().get_collection(GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope: str | None = None) -> list[Any]:
    return context.get_default_graph().get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope: str | None = None) -> list[Any]:
    return context.get_default_graph().get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def all_variables() -> list[Any]:
    """List all global variables: the old name of `global_variables`."""
    return global_variables()


def variables_initializer(var_list: Iterable[Variable], name: str = "init") -> Operation:
    """Make an op that runs the initializers of all these variables."""
    from dtfctl.runtime.ops.grouping import group

    return group(*[v.initializer for v in var_list], name=name)


def global_variables_initializer() -> Operation:
    return variables_initializer(global_variables(), "init")


def local_variables_initializer() -> Operation:
    return variables_initializer(local_variables(), "init")


def is_variable_initialized(variable: Variable) -> Tensor:
    return variable._is_initialized()


def report_uninitialized_variables(
    var_list: Iterable[Variable] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """List the names (1-D string) of the variables that have no value yet."""
    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
    with name_scope(name):
        if not variables:
            return convert_to_tensor([], dtypes.string)
        # The names are constants of the client's; only the flags come from the tasks of the variables.
        flags = []
        for v in variables:
            flags.append(v._is_initialized())
        missing = apply_op("LogicalNot", x=apply_op("Pack", values=flags))
        names = convert_to_tensor([v.op.name for v in variables])
        rows = apply_op("Where", input=missing)
        flat = apply_op("Reshape", tensor=rows, shape=[-1])
        return apply_op("GatherV2", params=names, indices=flat, axis=0)


def assert_variables_initialized(var_list: Iterable[Variable] | None = None) -> Operation | None:
    """Make an op that fails with FailedPreconditionError while a variable has no value."""
    from dtfctl.runtime.ops.grouping import group

    variables = [*global_variables(), *local_variables()] if var_list is None else list(var_list)
    return group(*[v.read_value() for v in variables], name="assert_variables_initialized") if variables else None
