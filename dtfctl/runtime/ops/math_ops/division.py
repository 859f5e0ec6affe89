"""The ways to divide."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.math_ops.types import cast
from dtfctl.runtime.ops.operands import typed_pair


def truediv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Divide as Python 3's x / y: integers are divided as floats."""
    with name_scope(name, "truediv") as scope:
        x, y = typed_pair(x, y)
        y = convert_to_tensor(y, x.dtype.base_dtype, name="y")
        kind = x.dtype.base_dtype
        wide = _TRUEDIV_TYPE.get(kind)
        if wide is not None:
            x, y = cast(x, wide), cast(y, wide)
        return apply_op("RealDiv", scope, x=x, y=y)


_TRUEDIV_TYPE = {
    dtypes.uint8: dtypes.float32,
    dtypes.int8: dtypes.float32,
    dtypes.uint16: dtypes.float32,
    dtypes.int16: dtypes.float32,
    dtypes.uint32: dtypes.float64,
    dtypes.uint64: dtypes.float64,
    dtypes.int32: dtypes.float64,
    dtypes.int64: dtypes.float64,
}
divide = truediv


def div(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Divide as Python 2's x / y: integers are divided with floor."""
    x, y = typed_pair(x, y)
    op_type = "RealDiv" if x.dtype.is_floating or x.dtype.is_complex else "FloorDiv"
    return apply_op(op_type, name or "div", x=x, y=y)


def floordiv(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Divide x by y and round down."""
    x, y = typed_pair(x, y)
    return apply_op("FloorDiv", name or "floordiv", x=x, y=y)
