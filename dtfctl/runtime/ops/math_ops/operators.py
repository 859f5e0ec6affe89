"""The arithmetic operators of tensors, and IndexedSlices as tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import (
    IndexedSlices,
    SparseTensor,
    convert_to_tensor,
    register_tensor_conversion_function,
)
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.math_ops.division import div, floordiv, truediv
from dtfctl.runtime.ops.math_ops.elementwise import abs, logical_xor
from dtfctl.runtime.ops.math_ops.matrices import matmul
from dtfctl.runtime.ops.op_defs.binary import bitwise_xor
from dtfctl.runtime.ops.op_defs.elementwise import invert, logical_not, negative
from dtfctl.runtime.ops.operands import has_dtype


def _dense(value: IndexedSlices, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    """Sum the rows of an IndexedSlices into zeros, where a tensor is wanted."""
    from dtfctl.runtime.framework.gradients import as_dense

    if dtype is not None and as_dtype(dtype).base_dtype is not value.dtype.base_dtype:
        raise ValueError(f"Tensor conversion requested dtype {dtype} for IndexedSlices with dtype {value.dtype.name}")
    return as_dense(value, name)


register_tensor_conversion_function(IndexedSlices, _dense)


def _operator(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def binary(self: Any, other: Any) -> Any:
        return _with_operands(function, name, self, other, False)

    return binary


def _reflected(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def binary(self: Any, other: Any) -> Any:
        return _with_operands(function, name, self, other, True)

    return binary


def _with_operands(function: Callable[..., Any], name: str, self: Any, other: Any, swap: bool) -> Any:
    if isinstance(other, (SparseTensor,)):
        return NotImplemented
    with context.get_default_graph().name_scope(name) as scope:
        x = self if isinstance(self, Tensor) else convert_to_tensor(self)
        if name == "mul" and not swap and dtypes.bool_ in (x.dtype.base_dtype, getattr(other, "dtype", None)):
            return _bool_product(x, other, scope)
        try:
            y = convert_to_tensor(other, x.dtype.base_dtype, name="y" if not swap else "x")
        except (TypeError, ValueError) as e:
            if hasattr(type(other), "__r" + name + "__"):
                return NotImplemented
            if has_dtype(other):
                raise TypeError(str(e)) from e
            raise
        if name == "mul" and x.dtype.base_dtype is dtypes.bool_:
            return _bool_product(y, x, scope)
        return function(y, x, scope) if swap else function(x, y, scope)


def _bool_product(x: Any, y: Any, name: str) -> Tensor:
    """Multiply as numbers where one is a bool: what TensorFlow's operator gives, and `tf.multiply` refuses."""
    x, y = (apply_op("Cast", x=value, DstT=dtypes.int32) for value in (x, y))
    return apply_op("Cast", x=apply_op("Mul", name, x=x, y=y), DstT=dtypes.bool_)


def _add_operator(x: Tensor, y: Tensor, name: str) -> Tensor:
    op_type = "Add" if x.dtype.base_dtype is dtypes.string else "AddV2"
    return apply_op(op_type, name, x=x, y=y)


def _logical(bitwise: str, boolean: str) -> Callable[..., Tensor]:
    def function(x: Tensor, y: Tensor, name: str) -> Tensor:
        op_type = boolean if x.dtype.base_dtype is dtypes.bool_ else bitwise
        return apply_op(op_type, name, x=x, y=y)

    return function


def _xor(x: Tensor, y: Tensor, name: str) -> Tensor:
    if x.dtype.base_dtype is dtypes.bool_:
        return logical_xor(x, y, name)
    return bitwise_xor(x, y, name)


def _simple(op_type: str) -> Callable[..., Tensor]:
    return lambda x, y, name: apply_op(op_type, name, x=x, y=y)


_BINARY_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": _add_operator,
    "sub": _simple("Sub"),
    "mul": _simple("Mul"),
    "truediv": truediv,
    "div": div,
    "floordiv": floordiv,
    "mod": _simple("FloorMod"),
    "pow": _simple("Pow"),
    "and": _logical("BitwiseAnd", "LogicalAnd"),
    "or": _logical("BitwiseOr", "LogicalOr"),
    "xor": _xor,
}
OPERATORS: dict[str, Callable[..., Any]] = {
    "__matmul__": lambda self, other: matmul(self, other, name="matmul"),
    "__rmatmul__": lambda self, other: matmul(other, self, name="matmul"),
    "__neg__": lambda self: negative(self),
    "__abs__": lambda self: abs(self),
}
for _name, _function in _BINARY_OPERATORS.items():
    OPERATORS[f"__{_name}__"] = _operator(_function, _name)
    OPERATORS[f"__r{_name}__"] = _reflected(_function, _name)
for _name, _op in {"lt": "Less", "le": "LessEqual", "gt": "Greater", "ge": "GreaterEqual"}.items():
    OPERATORS[f"__{_name}__"] = _operator(_simple(_op), _op)


def _invert(self: Any) -> Tensor:
    x = convert_to_tensor(self)
    return logical_not(x) if x.dtype.base_dtype is dtypes.bool_ else invert(x)


OPERATORS["__invert__"] = _invert
for _name, _function in OPERATORS.items():
    Tensor._override_operator(_name, _function)
