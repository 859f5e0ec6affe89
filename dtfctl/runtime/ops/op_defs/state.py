"""Entries of the state family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import INDEX, NUMBERS

define = OpFamily("state")

define.op(
    "Assign(ref: ref(T), value: T) -> (output_ref: ref(T)); T: type; validate_shape: bool = true; "
    "use_locking: bool = true; !uninitialized_input",
    gradient="none",
)
define.op(
    f"AssignAdd(ref: ref(T), value: T) -> (output_ref: ref(T)); T: {NUMBERS}; use_locking: bool = false",
    shape="merged",
    gradient="none",
)
define.op(
    f"AssignSub(ref: ref(T), value: T) -> (output_ref: ref(T)); T: {NUMBERS}; use_locking: bool = false",
    shape="merged",
    gradient="none",
)
define.op(
    f"CountUpTo(ref: ref(T)) -> (output: T); limit: int; T: {INDEX}",
    shape=lambda op: [op.inputs[0].shape.merge_with(())],
    gradient="none",
)
define.op(
    "DestroyTemporaryVariable(ref: ref(T)) -> (value: T); T: type; var_name: string", shape="unchanged", gradient="none"
)
define.op(
    "IsVariableInitialized(ref: ref(dtype)) -> (is_initialized: bool); dtype: type; !uninitialized_input",
    shape=[()],
    gradient="none",
)
define.op("MutexLock(mutex: resource) -> (mutex_lock: variant); !stateful", shape=[()], gradient="none")
define.op(
    'MutexV2() -> (resource: resource); container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
    gradient="none",
)
define.op(
    "ReadVariableOp(resource: resource) -> (value: dtype); dtype: type; !stateful", gradient=lambda op, grad: grad
)
define.op(
    f"ResourceCountUpTo(resource: resource) -> (output: T); limit: int; T: {INDEX}; !stateful",
    shape=[()],
    gradient="none",
)
define.op(
    f"ScatterAdd(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: {NUMBERS}; "
    f"Tindices: {INDEX}; use_locking: bool = false",
    gradient="none",
)
define.op(
    f"ScatterDiv(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: {NUMBERS}; "
    f"Tindices: {INDEX}; use_locking: bool = false",
    gradient="none",
)
define.op(
    "ScatterMax(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: type in {half, "
    f"bfloat16, float, double, int32, int64}}; Tindices: {INDEX}; use_locking: bool = false",
    gradient="none",
)
define.op(
    "ScatterMin(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: type in {half, "
    f"bfloat16, float, double, int32, int64}}; Tindices: {INDEX}; use_locking: bool = false",
    gradient="none",
)
define.op(
    f"ScatterMul(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: {NUMBERS}; "
    f"Tindices: {INDEX}; use_locking: bool = false",
    gradient="none",
)
define.op(
    f"ScatterNdAdd(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: {NUMBERS}; "
    f'Tindices: {INDEX}; use_locking: bool = false; bad_indices_policy: string = ""',
    shape="unchanged",
    gradient="none",
)
define.op(
    f"ScatterNdMax(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: {NUMBERS}; "
    f'Tindices: {INDEX}; use_locking: bool = false; bad_indices_policy: string = ""',
    shape="unchanged",
    gradient="none",
)
define.op(
    f"ScatterNdMin(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: {NUMBERS}; "
    f'Tindices: {INDEX}; use_locking: bool = false; bad_indices_policy: string = ""',
    shape="unchanged",
    gradient="none",
)
define.op(
    f"ScatterNdSub(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: {NUMBERS}; "
    f'Tindices: {INDEX}; use_locking: bool = false; bad_indices_policy: string = ""',
    shape="unchanged",
    gradient="none",
)
define.op(
    "ScatterNdUpdate(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: type; "
    f'Tindices: {INDEX}; use_locking: bool = true; bad_indices_policy: string = ""',
    shape="unchanged",
    gradient="none",
)
define.op(
    f"ScatterSub(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: {NUMBERS}; "
    f"Tindices: {INDEX}; use_locking: bool = false",
    gradient="none",
)
define.op(
    "ScatterUpdate(ref: ref(T), indices: Tindices, updates: T) -> (output_ref: ref(T)); T: type; "
    f"Tindices: {INDEX}; use_locking: bool = true",
    gradient="none",
)
define.op(
    'TemporaryVariable() -> (ref: ref(dtype)); shape: shape; dtype: type; var_name: string = ""; !stateful',
    shape=lambda op: [op.attr("shape")],
    gradient="none",
)
define.op(
    'VarHandleOp() -> (resource: resource); container: string = ""; shared_name: string = ""; '
    'debug_name: string = ""; dtype: type; shape: shape; allowed_devices: list(string) = []; !stateful',
    shape=[()],
    gradient="none",
)
define.op("VarIsInitializedOp(resource: resource) -> (is_initialized: bool); !stateful", shape=[()], gradient="none")
define.op(
    'Variable() -> (ref: ref(dtype)); shape: shape; dtype: type; container: string = ""; '
    'shared_name: string = ""; !stateful',
    shape=lambda op: [op.attr("shape")],
    gradient="none",
)
define.op(
    f"VariableShape(input: resource) -> (output: out_type); out_type: {INDEX} = int32; !stateful", gradient="none"
)


@define.op(
    'VariableV2() -> (ref: ref(dtype)); shape: shape; dtype: type; container: string = ""; '
    'shared_name: string = ""; !stateful',
    shape=lambda op: [op.attr("shape")],
    gradient="none",
)
def variable_op_v2(
    shape: Any, dtype: Any, name: str = "Variable", container: str = "", shared_name: str = ""
) -> Tensor:
    """Make a reference variable without an initializer."""
