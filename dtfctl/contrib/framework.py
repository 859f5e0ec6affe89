"""`tf.contrib.framework`: variables by scope, structures, checkpoints."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dtfctl.contrib.arg_scope import add_arg_scope, arg_scope, arg_scoped_arguments, current_arg_scope, has_arg_scope
from dtfctl.runtime.client.script_ops import py_func
from dtfctl.runtime.framework import context, nest
from dtfctl.runtime.framework.convert import convert_to_tensor_or_sparse_tensor
from dtfctl.runtime.framework.graph_keys import GraphKeys, add_to_collection, get_collection
from dtfctl.runtime.framework.tensor_util import is_tensor
from dtfctl.runtime.ops.array_ops import placeholder
from dtfctl.runtime.ops.check_ops import assert_same_float_dtype, assert_scalar
from dtfctl.runtime.ops.cond import smart_cond
from dtfctl.runtime.ops.critical_section import CriticalSection
from dtfctl.runtime.ops.function import TensorSpec
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.sort_ops import argsort, sort
from dtfctl.runtime.ops.variable_scope import get_variable
from dtfctl.runtime.programs.counterparts.deprecation import deprecated, deprecated_arg_values, deprecated_args
from dtfctl.runtime.train import init_from_checkpoint
from dtfctl.runtime.train.checkpoint_management import checkpoint_exists
from dtfctl.runtime.train.checkpoint_utils import list_variables, load_checkpoint, load_variable
from dtfctl.runtime.train.saver import Saver
from dtfctl.runtime.train.training_util import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)

__all__ = [
    "CriticalSection",
    "TensorSpec",
    "add_arg_scope",
    "add_model_variable",
    "arg_scope",
    "arg_scoped_arguments",
    "argsort",
    "assert_global_step",
    "assert_same_float_dtype",
    "assert_scalar",
    "assign_from_checkpoint",
    "assign_from_checkpoint_fn",
    "assign_from_values",
    "assign_from_values_fn",
    "checkpoint_exists",
    "convert_to_tensor_or_sparse_tensor",
    "create_global_step",
    "current_arg_scope",
    "deprecated",
    "deprecated_arg_values",
    "deprecated_args",
    "filter_variables",
    "get_global_step",
    "get_local_variables",
    "get_model_variables",
    "get_or_create_global_step",
    "get_trainable_variables",
    "get_unique_variable",
    "get_variable_full_name",
    "get_variables",
    "get_variables_by_name",
    "get_variables_by_suffix",
    "get_variables_to_restore",
    "has_arg_scope",
    "init_from_checkpoint",
    "is_tensor",
    "list_variables",
    "load_checkpoint",
    "load_variable",
    "model_variable",
    "nest",
    "py_func",
    "smart_cond",
    "sort",
    "variable",
]


def get_variables(scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES) -> Any:
    """Return the variables whose names begin with a scope's and end with `suffix`."""
    name = getattr(scope, "name", scope)
    found = get_collection(collection, name)
    return [v for v in found if suffix is None or v.op.name.endswith(suffix)]


def get_local_variables(scope: Any = None, suffix: str | None = None) -> Any:
    """Return the local ones of `get_variables`."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_variable_full_name(var: Any) -> str:
    """Return a variable's name; a part of one has the name of the whole."""
    info = var._get_save_slice_info()
    return str(info.full_name if info else var.op.name)


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


@add_arg_scope
def variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, **options: Any) -> Any:
    """`tf.get_variable`, on the device given, and in these collections besides that of all variables."""
    device, collections = options.pop("device", None), options.pop("collections", None)
    if collections:
        options["collections"] = list(dict.fromkeys([*collections, GraphKeys.GLOBAL_VARIABLES]))
    with context.get_default_graph().device(device or ""):
        return get_variable(name, shape, dtype, initializer, **options)


@add_arg_scope
def model_variable(name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, **options: Any) -> Any:
    """Make a variable that belongs to the model."""
    made = variable(name, shape, dtype, initializer, **options)
    add_model_variable(made)
    return made


def filter_variables(
    var_list: Any, include_patterns: Any = None, exclude_patterns: Any = None, reg_search: bool = True
) -> list[Any]:
    """Return the variables whose names have one of some patterns (any when None) and none of others."""
    has = re.search if reg_search else re.match

    def fits(patterns: Any, name: str) -> bool:
        return any(has(pattern, name) for pattern in patterns)

    chosen = [v for v in var_list if include_patterns is None or fits(include_patterns, v.op.name)]
    return [v for v in chosen if not (exclude_patterns and fits(exclude_patterns, v.op.name))]


def assign_from_values(var_names_to_values: Any) -> tuple[Any, dict[Any, Any]]:
    """Make an op, and what to feed it, that gives variables these values by their names."""
    ops, feed = [], {}
    for name, value in var_names_to_values.items():
        var = get_unique_variable(name)
        start = placeholder(var.dtype.base_dtype, var.shape, name=f"placeholder/{var.op.name}")
        ops.append(var.assign(start))
        feed[start] = value.reshape(var.shape.as_list())
    return group(*ops), feed


def assign_from_values_fn(var_names_to_values: Any) -> Callable[[Any], Any]:
    """Make a function of a session that gives variables these values by their names."""
    op, feed = assign_from_values(var_names_to_values)
    return lambda session: session.run(op, feed)


def _by_name(var_list: Any) -> dict[str, Any]:
    return dict(var_list) if isinstance(var_list, dict) else {v.op.name: v for v in var_list}


def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, dict[Any, Any]]:
    """Make an op, and what to feed it, that gives variables their values in a checkpoint.

    Args:
        model_path: of the checkpoint.
        var_list: the variables, or by their names in the checkpoint.
        ignore_missing_vars: leave those alone that it does not have.

    Raises:
        ValueError: the checkpoint has not one of them, or in another size.
    """
    reader, wanted = load_checkpoint(model_path), _by_name(var_list)
    ops, feed = [], {}
    for name, found in wanted.items():
        if not reader.has_tensor(name):
            if ignore_missing_vars:
                continue
            raise ValueError(f"Checkpoint is missing variable [{name}]")
        value = reader.get_tensor(name)
        for var in found if isinstance(found, (list, tuple)) else [found]:
            size = var.shape.num_elements()
            if size != value.size:
                raise ValueError(
                    f"Total size of new array must be unchanged for {name} "
                    f"lh_shape: [{value.shape}], rh_shape: [{var.shape}]"
                )
            start = placeholder(var.dtype.base_dtype, var.shape)
            ops.append(var.assign(start))
            feed[start] = value.reshape(var.shape.as_list())
    return group(*ops), feed


def assign_from_checkpoint_fn(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Any:
    """Make a function of a session that restores variables from a checkpoint.

    Args:
        model_path: of the checkpoint.
        var_list: the variables, or by their names in the checkpoint.
        ignore_missing_vars: leave those alone that it does not have; None is returned where it has none.
        reshape_variables: restore what has another shape of the same size.

    Raises:
        ValueError: there is nothing to restore.
    """
    wanted = _by_name(var_list)
    if not wanted:
        raise ValueError("var_list cannot be empty")
    if ignore_missing_vars:
        reader = load_checkpoint(model_path)
        wanted = {name: v for name, v in wanted.items() if reader.has_tensor(name)}
        if not wanted:
            return None
    saver = Saver(wanted, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)
