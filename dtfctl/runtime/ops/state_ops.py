"""Functions on variables: assignment, counting and sparse updates, for reference and resource variables alike."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.batches import places_in_batches
from dtfctl.runtime.ops.op_defs.state import variable_op_v2
from dtfctl.runtime.ops.variables import ResourceVariable, Variable


def _ref(ref: Any) -> Any:
    """Get the reference tensor behind a variable."""
    return getattr(ref, "_variable", None) if isinstance(ref, Variable) else ref


def _dtype(ref: Any) -> Any:
    return ref.dtype.base_dtype


def variable_op(
    shape: Any, dtype: Any, name: str = "Variable", set_shape: bool = True, container: str = "", shared_name: str = ""
) -> Tensor:
    return variable_op_v2(shape if set_shape else None, dtype, name, container, shared_name)


def is_variable_initialized(ref: Any, name: str | None = None) -> Tensor:
    if isinstance(ref, ResourceVariable):
        return ref.is_initialized(name=name)
    return apply_op("IsVariableInitialized", ref=_ref(ref), name=name)


def assign(
    ref: Any, value: Any, validate_shape: bool | None = None, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Set a variable; gives the variable after it was set."""
    if isinstance(ref, ResourceVariable):
        return ref.assign(value, name=name)
    return apply_op(
        "Assign",
        ref=_ref(ref),
        value=value,
        validate_shape=validate_shape,
        use_locking=use_locking,
        name=name,
    )


def assign_add(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Add to a variable; gives the new value."""
    if isinstance(ref, ResourceVariable):
        return ref.assign_add(value)
    return apply_op("AssignAdd", ref=_ref(ref), value=value, use_locking=use_locking, name=name)


def assign_sub(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Subtract from a variable; gives the new value."""
    if isinstance(ref, ResourceVariable):
        return ref.assign_sub(value)
    return apply_op("AssignSub", ref=_ref(ref), value=value, use_locking=use_locking, name=name)


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """Increment a value and give what it was before; OutOfRangeError once it has reached the limit."""
    if isinstance(ref, ResourceVariable):
        return apply_op("ResourceCountUpTo", resource=ref.handle, limit=limit, T=_dtype(ref), name=name)
    return apply_op("CountUpTo", ref=_ref(ref), limit=limit, name=name)


def _scatter(kind: str, ref: Any, indices: Any, updates: Any, use_locking: bool | None, name: str | None) -> Any:
    updates = convert_to_tensor(updates, _dtype(ref))
    if isinstance(ref, ResourceVariable):
        return ref._scatter(kind, indices, updates, use_locking, name)
    return apply_op(
        f"Scatter{kind}", ref=_ref(ref), indices=indices, updates=updates, use_locking=use_locking, name=name
    )


def _scatter_nd(kind: str, ref: Any, indices: Any, updates: Any, use_locking: bool | None, name: str | None) -> Any:
    updates = convert_to_tensor(updates, _dtype(ref))
    if isinstance(ref, ResourceVariable):
        return ref._scatter_nd(kind, indices, updates, name)
    return apply_op(
        f"ScatterNd{kind}", ref=_ref(ref), indices=indices, updates=updates, use_locking=use_locking, name=name
    )


def scatter_update(ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Any:
    """Replace rows of a variable."""
    return _scatter("Update", ref, indices, updates, use_locking, name)


def scatter_add(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Add to rows of a variable."""
    return _scatter("Add", ref, indices, updates, use_locking, name)


def scatter_sub(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Subtract from rows of a variable."""
    return _scatter("Sub", ref, indices, updates, use_locking, name)


def scatter_mul(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Multiply rows of a variable."""
    return _scatter("Mul", ref, indices, updates, use_locking, name)


def scatter_div(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Divide rows of a variable."""
    return _scatter("Div", ref, indices, updates, use_locking, name)


def scatter_min(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Set rows of a variable to the minimum of themselves and the updates."""
    return _scatter("Min", ref, indices, updates, use_locking, name)


def scatter_max(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Set rows of a variable to the maximum of themselves and the updates."""
    return _scatter("Max", ref, indices, updates, use_locking, name)


def scatter_nd_update(ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Any:
    """Replace elements or slices of a variable at coordinates."""
    return _scatter_nd("Update", ref, indices, updates, use_locking, name)


def scatter_nd_add(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Add to elements or slices of a variable at coordinates."""
    return _scatter_nd("Add", ref, indices, updates, use_locking, name)


def scatter_nd_sub(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Subtract from elements or slices of a variable at coordinates."""
    return _scatter_nd("Sub", ref, indices, updates, use_locking, name)


def batch_scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Assign rows of a variable within each of its batches: ref[i, indices[i, j]] = updates[i, j].

    Raises:
        ValueError: the rank of the indices is not known.
    """
    with name_scope(name, "batch_scatter_update"):
        return scatter_nd_update(ref, places_in_batches(indices), updates, use_locking)
