"""What a saver saves: variables and other things with tensors, each under its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.graph_keys import GraphKeys
from dtfctl.runtime.framework.op_builder import apply_op, make_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.partitioned_variables import PartitionedVariable
from dtfctl.runtime.ops.transfer_compression import STATES, TransferState
from dtfctl.runtime.ops.variable_collections import global_variables
from dtfctl.runtime.ops.variables import Variable


class SaveableObject:
    """Something a checkpoint can hold under a name: override `restore`.

    Args:
        op: what is saved; specs: (tensor, slice, name) triples, the tensors to write.
    """

    def __init__(self, op: Any, specs: Sequence[tuple[Any, str, str]], name: str) -> None:
        self.op, self.specs, self.name = op, list(specs), name

    @property
    def device(self) -> str:
        return str(self.specs[0][0].device)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        raise NotImplementedError


class _SaveableVariable(SaveableObject):
    def __init__(self, variable: Variable, name: str, is_slice: bool) -> None:
        info = variable._get_save_slice_info() if is_slice else None
        self.variable = variable
        with context.get_default_graph().colocate_with(None, ignore_existing=True):
            tensor = variable._saved_value()
        super().__init__(variable, [(tensor, info.spec if info else "", name)], name)

    @property
    def device(self) -> str:
        return self.variable.device

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = apply_op("Reshape", tensor=value, shape=restored_shapes[0])
        return self.variable._restore(value, restored_shapes is None and self.variable.shape.is_fully_defined())


class _SaveableOutput(SaveableObject):
    """A variable of a graph that was read, known by the output of its op: a reference, or a handle."""

    def __init__(self, tensor: Tensor, name: str) -> None:
        self._tensor = tensor
        value = tensor
        if tensor.dtype is dtypes.resource:
            value = apply_op("ReadVariableOp", resource=tensor, dtype=tensor.op.attr("dtype"))
        super().__init__(tensor, [(value, "", name)], name)

    @property
    def device(self) -> str:
        return self._tensor.device

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        value = restored_tensors[0]
        if restored_shapes is not None:
            value = apply_op("Reshape", tensor=value, shape=restored_shapes[0])
        with self._tensor.graph.colocate_with(self._tensor.op):
            if self._tensor.dtype is dtypes.resource:
                return make_op("AssignVariableOp", resource=self._tensor, value=value)
            return apply_op("Assign", ref=self._tensor, value=value)


class _SaveableStates(SaveableObject):
    """What other workers' codecs keep for a variable, by worker."""

    def __init__(self, state: TransferState) -> None:
        with context.get_default_graph().name_scope(""):
            self._table = state.table()
        keys, values = self._table.export()
        name = f"{state.variable}/Compression_others"
        super().__init__(self._table, [(keys, "", f"{name}-keys"), (values, "", f"{name}-values")], name)

    def restore(self, restored_tensors: Sequence[Tensor], restored_shapes: Any) -> Any:
        with context.get_default_graph().colocate_with(self._table.resource_handle.op):
            return self._table.import_values(restored_tensors[0], restored_tensors[1])


def all_saveable() -> list[Any]:
    graph = context.get_default_graph()
    states = [_SaveableStates(state) for state in graph.get_collection(STATES)]
    return [*global_variables(), *graph.get_collection(GraphKeys.SAVEABLE_OBJECTS), *states]


def saveables_of(variables: Any) -> list[SaveableObject]:
    """Make one object per name; raises ValueError when two share one.

    A part of a partitioned variable is a slice of the whole in a list of parts or by its own name, and a variable like
    any other where it has a name to itself: as in a mapping, and in an object-based checkpoint.
    """
    pairs: list[tuple[str, Any]] = []
    if isinstance(variables, Mapping):
        pairs = [(str(k), v) for k, v in variables.items()]
    else:
        for v in variables:
            if isinstance(v, Variable):
                info = v._get_save_slice_info()
                pairs.append((info.full_name, [v]) if info else (v._shared_name, v))
            elif isinstance(v, (PartitionedVariable, SaveableObject)):
                pairs.append((v.name, v))
            else:
                raise TypeError(f"Variable to save is not a Variable: {v!r}")
    out: list[SaveableObject] = []
    seen: set[tuple[str, str]] = set()
    for name, item in sorted(pairs, key=lambda p: p[0]):
        are_slices = isinstance(item, (PartitionedVariable, list, tuple))
        for part in list(item) if are_slices else [item]:
            saveable = _saveable(part, name, are_slices)
            for _, piece, spec_name in saveable.specs:
                if (spec_name, piece) in seen:
                    raise ValueError(f"At least two variables have the same name: {spec_name}")
                seen.add((spec_name, piece))
            out.append(saveable)
    return out


def _saveable(item: Any, name: str, is_slice: bool) -> SaveableObject:
    if isinstance(item, SaveableObject):
        return item
    if isinstance(item, Tensor) and item.op.type in ("Variable", "VariableV2", "VarHandleOp"):
        return _SaveableOutput(item, name)
    if not isinstance(item, Variable):
        raise TypeError(f"Variable to save is not a Variable: {item!r}")
    return _SaveableVariable(item, name, is_slice)
