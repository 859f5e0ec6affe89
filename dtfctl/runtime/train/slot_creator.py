"""Slots: variables an optimizer keeps beside each variable it trains, on the same device."""

from __future__ import annotations

import contextlib
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.ops.variable_scope import get_variable, variable_scope
from dtfctl.runtime.ops.variables import SaveSliceInfo


def create_slot(primary: Any, value: Any, name: str, colocate_with_primary: bool = True) -> Any:
    """Make a slot of `primary` called `name` that starts as `value` (a tensor)."""
    return _create(primary, name, value, value.shape, value.dtype.base_dtype, colocate_with_primary)


def create_slot_with_initializer(
    primary: Any, initializer: Any, shape: Any, dtype: Any, name: str, colocate_with_primary: bool = True
) -> Any:
    """Make a slot started by an initializer of the given shape and type."""
    return _create(primary, name, initializer, TensorShape(shape), dtype, colocate_with_primary)


def create_zeros_slot(primary: Any, name: str, dtype: Any = None, colocate_with_primary: bool = True) -> Any:
    """Make a slot of zeros in the shape of `primary`."""
    wanted = (dtype or primary.dtype).base_dtype
    return create_slot_with_initializer(primary, init_ops.Zeros(), primary.shape, wanted, name, colocate_with_primary)


def _create(primary: Any, name: str, initial: Any, shape: Any, dtype: Any, colocate: bool) -> Any:
    graph = context.get_default_graph()
    prefix = primary._shared_name if hasattr(primary, "_shared_name") else primary.op.name
    placed: Any = graph.colocate_with(primary.op) if colocate else contextlib.nullcontext()
    # As in TensorFlow a slot's name is one in the variable scope around, so that checkpoints are read both ways.
    with variable_scope(None, f"{prefix}/{name}") as scope, placed:
        scope.set_partitioner(None)
        slot = get_variable(
            "",
            shape if callable(initial) else None,
            dtype,
            initial,
            trainable=False,
            validate_shape=shape.is_fully_defined(),
            use_resource=getattr(primary, "_is_resource", False),
        )
    info = primary._get_save_slice_info() if hasattr(primary, "_get_save_slice_info") else None
    if info is not None and shape.as_list() == primary.shape.as_list():
        # A slot of one part of a partitioned variable is saved as the same part of one whole slot.
        slot._set_save_slice_info(
            SaveSliceInfo(
                f"{info.full_name}/{slot.op.name[len(primary.op.name) + 1 :]}",
                info.full_shape,
                info.var_offset,
                info.var_shape,
            )
        )
    return slot
