"""The arithmetic operators of ragged tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import register_tensor_conversion_function
from dtfctl.runtime.ops import math_ops
from dtfctl.runtime.ops.op_defs.binary import bitwise_and, bitwise_or, bitwise_xor, logical_and, logical_or
from dtfctl.runtime.ops.op_defs.elementwise import invert, logical_not, negative
from dtfctl.runtime.ops.ragged_ops.broadcasting import of_elements
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor


def _operator(function: Callable[..., Any], swap: bool) -> Callable[..., Any]:
    def binary(self: RaggedTensor, other: Any) -> Any:
        return of_elements(function, (other, self) if swap else (self, other), function)

    return binary


def _by_type(of_truths: Callable[..., Any], of_bits: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y: (of_truths if x.dtype.base_dtype is dtypes.bool_ else of_bits)(x, y)


_BINARY: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "truediv": lambda x, y: x / y,
    "div": math_ops.div,
    "floordiv": math_ops.floordiv,
    "mod": math_ops.floormod,
    "pow": math_ops.pow,
    "and": _by_type(logical_and, bitwise_and),
    "or": _by_type(logical_or, bitwise_or),
    "xor": _by_type(math_ops.logical_xor, bitwise_xor),
}
for _name, _function in _BINARY.items():
    setattr(RaggedTensor, f"__{_name}__", _operator(_function, False))
    setattr(RaggedTensor, f"__r{_name}__", _operator(_function, True))
for _name, _function in {
    "lt": math_ops.less,
    "le": math_ops.less_equal,
    "gt": math_ops.greater,
    "ge": math_ops.greater_equal,
}.items():
    setattr(RaggedTensor, f"__{_name}__", _operator(_function, False))


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self: self.with_flat_values(function(self.flat_values))


for _name, _function in {
    "neg": negative,
    "abs": math_ops.abs,
    "invert": lambda x: logical_not(x) if x.dtype.base_dtype is dtypes.bool_ else invert(x),
}.items():
    setattr(RaggedTensor, f"__{_name}__", _unary(_function))


def _refuse(value: RaggedTensor, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    raise TypeError(f"{value!r} is ragged where a dense tensor is wanted: use to_tensor(), or a function of tf.ragged")


register_tensor_conversion_function(RaggedTensor, _refuse)
