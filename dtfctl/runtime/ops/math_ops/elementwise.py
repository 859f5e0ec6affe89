"""Functions of each element, or of each pair of elements of broadcast tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.op_defs.binary import logical_and, logical_or, mod_, pow_
from dtfctl.runtime.ops.op_defs.elementwise import logical_not
from dtfctl.runtime.ops.operands import typed_pair


def abs(x: Any, name: str | None = None) -> Any:
    """Compute the absolute value; of complex numbers the magnitude."""
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, abs(x.values, name=name), x.dense_shape)
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return apply_op("ComplexAbs", name or "Abs", x=x, Tout=x.dtype.real_dtype)
    return apply_op("Abs", name, x=x)


def round(x: Any, name: str | None = None) -> Tensor:
    """Round to the nearest integer, halves to the even one."""
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else apply_op("Round", name, x=x)


floormod = mod_


def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Raise x to the power of y."""
    return pow_(x, y, name)


@overload
def multiply(x: Tensor, y: Tensor, name: str | None = None) -> Tensor: ...
@overload
def multiply(x: Any, y: Any, name: str | None = None) -> Any: ...
def multiply(x: Any, y: Any, name: str | None = None) -> Any:
    """Multiply x by y; a SparseTensor times a dense tensor stays sparse."""
    if isinstance(x, (SparseTensor, IndexedSlices)) or isinstance(y, SparseTensor):
        return x * y
    x, y = typed_pair(x, y)
    return apply_op("Mul", name, x=x, y=y)


mul = multiply


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """Multiply a tensor, or the values of an IndexedSlices, by a scalar."""
    scalar = convert_to_tensor(scalar, x.dtype.base_dtype, name="scalar")
    if scalar.shape.rank not in (None, 0):
        raise ValueError("Only scalar multiply works, got shape " + str(scalar.shape))
    if isinstance(x, IndexedSlices):
        return IndexedSlices(apply_op("Mul", name, x=scalar, y=x.values), x.indices, x.dense_shape)
    return apply_op("Mul", name, x=scalar, y=x)


def equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Tell whether x == y, element by element."""
    x, y = typed_pair(x, y)
    return apply_op("Equal", name, x=x, y=y)


def not_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Tell whether x != y, element by element."""
    x, y = typed_pair(x, y)
    return apply_op("NotEqual", name, x=x, y=y)


def approximate_equal(x: Any, y: Any, tolerance: float = 1e-5, name: str | None = None) -> Tensor:
    """Tell whether |x - y| < tolerance, element by element."""
    x, y = typed_pair(x, y)
    return apply_op("ApproximateEqual", name, x=x, y=y, tolerance=tolerance)


def logical_xor(x: Any, y: Any, name: str = "LogicalXor") -> Tensor:
    """Tell whether one of two truth values holds but not both."""
    return logical_and(logical_or(x, y), logical_not(logical_and(x, y)), name=name)


def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """Compute 1 / x, and 0 where x is 0."""
    with name_scope(name, "reciprocal_no_nan") as scope:
        tensor = convert_to_tensor(x)
        return apply_op("DivNoNan", scope, x=constant(1, tensor.dtype.base_dtype), y=tensor)


def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Tensor:
    """Evaluate the polynomial with these coefficients, highest power first."""
    if not isinstance(coeffs, (list, tuple)):
        raise ValueError(f"Argument coeffs must be list type. Received type {type(coeffs)}.")
    with name_scope(name, "polyval"):
        tensor = convert_to_tensor(x)
        if not coeffs:
            return apply_op("ZerosLike", x=tensor)
        total = convert_to_tensor(coeffs[0], tensor.dtype.base_dtype)
        for c in coeffs[1:]:
            total = convert_to_tensor(c, tensor.dtype.base_dtype) + total * tensor
        return total
