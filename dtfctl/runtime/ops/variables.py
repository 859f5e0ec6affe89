"""Variables: TF1's reference variables (VariableV2) and resource variables (VarHandleOp) behind one class.

`Variable(...)` makes a reference variable, or a resource variable with `use_resource=True`, inside a variable scope
that asks for it, or after `enable_resource_variables()`. Both live on the task of their device, by container and
name, and survive the session that made them.
"""

from __future__ import annotations

from dtfctl.runtime.ops.base_variable import (
    SaveSliceInfo,
    Variable,
    VariableAggregation,
    VariableSynchronization,
    disable_resource_variables,
    enable_resource_variables,
    resource_variables_enabled,
    set_kinds,
    variable_creator_scope,
)
from dtfctl.runtime.ops.partitioned_variables import PartitionedVariable
from dtfctl.runtime.ops.ref_variable import RefVariable
from dtfctl.runtime.ops.resource_variable import ResourceVariable

__all__ = [
    "PartitionedVariable",
    "RefVariable",
    "ResourceVariable",
    "SaveSliceInfo",
    "Variable",
    "VariableAggregation",
    "VariableSynchronization",
    "disable_resource_variables",
    "enable_resource_variables",
    "resource_variables_enabled",
    "variable_creator_scope",
]

set_kinds(reference=RefVariable, resource=ResourceVariable)
