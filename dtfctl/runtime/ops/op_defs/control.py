"""Entries of the control family."""

from __future__ import annotations

from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import INDEX

define = OpFamily("control")

define.op(
    "EmptyTensorList(element_shape: shape_type, max_num_elements: int32) -> (handle: variant); "
    f"element_dtype: type; shape_type: {INDEX}",
    gradient="none",
)


@define.op("NoOp() -> ()", gradient="none", exports=("no_op",))
def no_op(name: str | None = None) -> Operation:
    """Do nothing; other ops can wait for it."""


define.op(
    "PyFunc(input: list(Tin)) -> (output: list(Tout)); token: string; Tin: list(type) >= 0; "
    "Tout: list(type) >= 0; !stateful",
    gradient="none",
)
define.op(
    "PyFuncStateless(input: list(Tin)) -> (output: list(Tout)); token: string; Tin: list(type) >= 0; "
    "Tout: list(type) >= 0",
    gradient="none",
)
define.op(
    f"TensorListElementShape(input_handle: variant) -> (element_shape: shape_type); shape_type: {INDEX}",
    gradient="none",
)
define.op("TensorListLength(input_handle: variant) -> (length: int32)", gradient="none")
define.op(
    "TensorListReserve(element_shape: shape_type, num_elements: int32) -> (handle: variant); "
    f"element_dtype: type; shape_type: {INDEX}",
    gradient="none",
)
define.op(
    "TensorMapErase(input_handle: variant, key: key_dtype) -> (output_handle: variant); key_dtype: type; "
    "value_dtype: type",
    gradient=lambda op, grad: [grad, None],
)
