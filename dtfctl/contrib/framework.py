"""`tf.contrib.framework`: variables by scope, structures, checkpoints."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context, nest
from dtfctl.runtime.framework.graph_keys import GraphKeys, add_to_collection, get_collection
from dtfctl.runtime.ops.variable_scope import get_variable
from dtfctl.runtime.train import init_from_checkpoint
from dtfctl.runtime.train.checkpoint_utils import list_variables, load_checkpoint, load_variable
from dtfctl.runtime.train.training_util import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)

__all__ = [
    "add_model_variable",
    "assert_global_step",
    "create_global_step",
    "get_global_step",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_unique_variable",
    "get_variables",
    "get_variables_by_name",
    "get_variables_by_suffix",
    "get_variables_to_restore",
    "init_from_checkpoint",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "model_variable",
    "nest",
    "variable",
]


def get_variables(scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES) -> Any:
    """Return the variables whose names begin with a scope's and end with `suffix`."""
    name = getattr(scope, "name", scope)
    found = get_collection(collection, name)
    return [v for v in found if suffix is None or v.op.name.endswith(suffix)]


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> Any:
    """Return the trainable ones of `get_variables`."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_model_variables(scope: Any = None, suffix: str | None = None) -> Any:
    """Return the ones of `get_variables` that belong to the model."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_variables_by_suffix(suffix: str, scope: Any = None) -> Any:
    """Return the variables whose names end so."""
    return get_variables(scope, suffix)


def get_variables_by_name(given_name: str, scope: Any = None) -> Any:
    """Return the variables whose last name is this."""
    found = get_variables(scope)
    return [v for v in found if v.op.name == given_name or v.op.name.endswith(f"/{given_name}")]


def get_unique_variable(var_op_name: str) -> Any:
    """Return the one variable of this name.

    Raises:
        ValueError: there is none.
    """
    for candidate in get_variables(var_op_name):
        if candidate.op.name == var_op_name:
            return candidate
    raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable")


def get_variables_to_restore(include: Any = None, exclude: Any = None) -> list[Any]:
    """Return the variables of the scopes in `include` (all when None), less those of the scopes in `exclude`."""
    chosen = get_variables() if include is None else [v for scope in include for v in get_variables(scope)]
    left_out = {v for scope in exclude or () for v in get_variables(scope)}
    return [v for v in dict.fromkeys(chosen) if v not in left_out]


def add_model_variable(var: Any) -> None:
    """Say that a variable belongs to the model."""
    if var not in get_collection(GraphKeys.MODEL_VARIABLES):
        add_to_collection(GraphKeys.MODEL_VARIABLES, var)


def variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, **options: Any) -> Any:
    """`tf.get_variable`, on the device given, and in these collections besides that of all variables."""
    device, collections = options.pop("device", None), options.pop("collections", None)
    if collections:
        options["collections"] = list(dict.fromkeys([*collections, GraphKeys.GLOBAL_VARIABLES]))
    with context.get_default_graph().device(device or ""):
        return get_variable(name, shape, dtype, initializer, **options)


def model_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, **options: Any) -> Any:
    """Make a variable that belongs to the model."""
    made = variable(name, shape, dtype, initializer, **options)
    add_model_variable(made)
    return made
