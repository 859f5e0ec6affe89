"""Ops that tie others together: group, tuple, identity after control dependencies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.ops.op_defs.control import no_op


def _operation(item: Any) -> Operation:
    if isinstance(item, Operation):
        return item
    if isinstance(item, IndexedSlices):
        return item.values.op
    element = item._as_graph_element() if hasattr(item, "_as_graph_element") else item
    operation = element if isinstance(element, Operation) else element.op
    if not isinstance(operation, Operation):
        raise TypeError(f"'inputs' should be operations or tensors, got {item!r}")
    return operation


def group(*inputs: Any, name: str | None = None, **kwargs: Any) -> Operation:
    """Make an op that finishes when all inputs have; inputs on several devices are grouped by device first.

    Raises:
        TypeError: an input is no op, tensor or variable, or a keyword is unknown.
    """
    if kwargs:
        raise TypeError(f"group() got unexpected keyword arguments {sorted(kwargs)}")
    ops: list[Operation] = []
    for item in inputs:
        for one in item if isinstance(item, (list, tuple)) else [item]:
            if one is not None:
                ops.append(_operation(one))
    graph = context.get_default_graph()
    with name_scope(name, "group_deps") as scope:
        by_device: dict[str, list[Operation]] = {}
        for op in ops:
            by_device.setdefault(op.device, []).append(op)
        if len(by_device) <= 1:
            device, members = next(iter(by_device.items()), ("", []))
            with graph.device(device or None) if device else graph.device(""), graph.control_dependencies(members):
                return no_op(name=scope)
        partial = []
        for device, members in by_device.items():
            with graph.device(device), graph.control_dependencies(members):
                partial.append(no_op(name="NoOp"))
        with graph.control_dependencies(partial):
            return no_op(name=scope)


def with_dependencies(dependencies: Iterable[Any], output: Any, name: str | None = None) -> Any:
    """Pass on `output` once all dependencies have run."""
    graph = context.get_default_graph()
    with name_scope(name, "control_dependency") as scope:
        value = output.values if isinstance(output, IndexedSlices) else convert_to_tensor(output)
        with graph.colocate_with(value.op), graph.control_dependencies(dependencies):
            result = apply_op("Identity", scope, input=value)
        if isinstance(output, IndexedSlices):
            return IndexedSlices(result, output.indices, output.dense_shape)
        result.set_shape(value.shape)
        return result


def tuple_(tensors: Sequence[Any], name: str | None = None, control_inputs: Iterable[Any] | None = None) -> list[Any]:
    """Pass on the same tensors, none of which is ready before all are (and the control inputs)."""
    with name_scope(name, "tuple"):
        present = [_operation(t) for t in tensors if t is not None]
        if not present:
            raise ValueError("Must have at least one Tensor")
        present += [_operation(c) for c in control_inputs or ()]
        gate = group(*present)
        return [None if t is None else with_dependencies([gate], t) for t in tensors]
