"""Operands as tensors of one type, and ops on them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor


def typed_pair(x: Any, y: Any) -> tuple[Any, Any]:
    """Convert both operands, the first to a tensor: the one that has a type gives it to the other."""
    if has_dtype(x) or not has_dtype(y):
        return convert_to_tensor(x, name="x"), y
    y = convert_to_tensor(y, name="y")
    return convert_to_tensor(x, y.dtype.base_dtype, name="x"), y


def second_operand(op: str, a: Tensor, b: Any) -> Tensor:
    """Convert what `a` is multiplied with to a tensor.

    Raises:
        TypeError: it is a tensor of another type.
    """
    if has_dtype(b) and b.dtype.base_dtype is not a.dtype.base_dtype:
        raise TypeError(
            f"Input 'b' of '{op}' Op has type {b.dtype.base_dtype.name} that does not match type "
            f"{a.dtype.base_dtype.name} of argument 'a'."
        )
    return convert_to_tensor(b, a.dtype.base_dtype, name="b")


def has_dtype(value: Any) -> bool:
    """Tell whether a value has a type of its own, as tensors and variables have; NumPy's are converted."""
    return isinstance(value, Tensor) or (hasattr(value, "dtype") and not isinstance(value, (np.ndarray, np.generic)))


# What Python's operators call their ops, as in TensorFlow.
_OPERATORS = {
    "AddV2": "add",
    "FloorDiv": "floordiv",
    "FloorMod": "mod",
    "Mul": "mul",
    "Pow": "pow",
    "RealDiv": "truediv",
    "Sub": "sub",
}


def apply_mixed(op: str, x: Any, y: Any = None, name: str | None = None) -> Tensor:
    """Apply an elementwise op; a Python number beside a tensor takes the tensor's type.

    Without a name the op has that of Python's operator, where there is one: what TensorFlow writes as `a + b` is "add".
    """
    if y is None:
        return apply_op(op, x=x, name=name)
    with name_scope(name, _OPERATORS.get(op, op)) as scope:
        if isinstance(x, Tensor) and not has_dtype(y):
            y = convert_to_tensor(y, x.dtype.base_dtype, name="y")
        elif isinstance(y, Tensor) and not has_dtype(x):
            x = convert_to_tensor(x, y.dtype.base_dtype, name="x")
        return apply_op(op, x=x, y=y, name=scope)


def cast_to(value: Any, dtype: Any) -> Tensor:
    """Convert a value to a tensor of type `dtype`; a tensor that has that type already stays as it is."""
    tensor = convert_to_tensor(value)
    return tensor if tensor.dtype.base_dtype is dtype else apply_op("Cast", x=tensor, DstT=dtype)


def conj(x: Any, name: str | None = None) -> Tensor:
    """Conjugate complex numbers; real tensors stay as they are."""
    tensor = convert_to_tensor(x, name="x")
    if tensor.dtype.is_complex or tensor.dtype.base_dtype is dtypes.variant:
        return apply_op("Conj", name, input=tensor)
    return tensor
