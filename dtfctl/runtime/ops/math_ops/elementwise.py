"""Functions of each element, or of each pair of elements of broadcast tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.operands import typed_pair

Unary = Callable[..., Tensor]


def unary(op_type: str, argument: str = "x") -> Unary:
    """A function that builds an op of one argument."""

    def function(x: Any, name: str | None = None) -> Tensor:
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, function(x.values, name=name), x.dense_shape)  # type: ignore[return-value]
        return apply_op(op_type, name, **{argument: x})

    function.__name__ = function.__qualname__ = op_type.lower()
    function.__doc__ = f"The {op_type} op, element by element (a SparseTensor's values)."
    return function


acos, acosh, asin, asinh = unary("Acos"), unary("Acosh"), unary("Asin"), unary("Asinh")
atan, atanh, cos, cosh = unary("Atan"), unary("Atanh"), unary("Cos"), unary("Cosh")
sin, sinh, tan, tanh = unary("Sin"), unary("Sinh"), unary("Tan"), unary("Tanh")
exp, expm1, log, log1p = unary("Exp"), unary("Expm1"), unary("Log"), unary("Log1p")
ceil, floor, rint = unary("Ceil"), unary("Floor"), unary("Rint")
sqrt, rsqrt, square, sigmoid = unary("Sqrt"), unary("Rsqrt"), unary("Square"), unary("Sigmoid")
negative, sign, reciprocal = unary("Neg"), unary("Sign"), unary("Reciprocal")
erf, erfc, erfinv, ndtri = unary("Erf"), unary("Erfc"), unary("Erfinv"), unary("Ndtri")
lgamma, digamma, dawsn, expint, spence = (
    unary("Lgamma"),
    unary("Digamma"),
    unary("Dawsn"),
    unary("Expint"),
    unary("Spence"),
)
fresnel_cos, fresnel_sin = unary("FresnelCos"), unary("FresnelSin")
bessel_i0, bessel_i0e, bessel_i1, bessel_i1e = (
    unary("BesselI0"),
    unary("BesselI0e"),
    unary("BesselI1"),
    unary("BesselI1e"),
)
bessel_j0, bessel_j1, bessel_y0, bessel_y1 = (
    unary("BesselJ0"),
    unary("BesselJ1"),
    unary("BesselY0"),
    unary("BesselY1"),
)
bessel_k0, bessel_k0e, bessel_k1, bessel_k1e = (
    unary("BesselK0"),
    unary("BesselK0e"),
    unary("BesselK1"),
    unary("BesselK1e"),
)
is_finite, is_inf, is_nan = unary("IsFinite"), unary("IsInf"), unary("IsNan")
logical_not = unary("LogicalNot")
invert, population_count = unary("Invert"), unary("PopulationCount")
neg = negative


def abs(x: Any, name: str | None = None) -> Any:
    """Absolute value; of complex numbers the magnitude."""
    if isinstance(x, SparseTensor):
        return SparseTensor(x.indices, abs(x.values, name=name), x.dense_shape)
    x = convert_to_tensor(x, name="x")
    if x.dtype.is_complex:
        return apply_op("ComplexAbs", name or "Abs", x=x, Tout=x.dtype.real_dtype)
    return apply_op("Abs", name, x=x)


def round(x: Any, name: str | None = None) -> Tensor:
    """To the nearest integer, halves to the even one."""
    x = convert_to_tensor(x, name="x")
    return x if x.dtype.is_integer else apply_op("Round", name, x=x)


def _binary(op_type: str, default_name: str | None = None) -> Callable[..., Tensor]:
    def function(x: Any, y: Any, name: str | None = None) -> Tensor:
        x, y = typed_pair(x, y)
        return apply_op(op_type, name or default_name, x=x, y=y)

    function.__name__ = function.__qualname__ = op_type.lower()
    function.__doc__ = f"The {op_type} op on broadcast arguments."
    return function


add, subtract, div_no_nan = _binary("AddV2", "Add"), _binary("Sub"), _binary("DivNoNan")
maximum, minimum, pow_, mod_ = _binary("Maximum"), _binary("Minimum"), _binary("Pow"), _binary("FloorMod")
floormod = floor_mod = mod = mod_
squared_difference, truncatediv, truncatemod = (
    _binary("SquaredDifference"),
    _binary("TruncateDiv"),
    _binary("TruncateMod"),
)
floor_div, realdiv, multiply_no_nan = _binary("FloorDiv"), _binary("RealDiv"), _binary("MulNoNan")
greater, greater_equal, less, less_equal = (
    _binary("Greater"),
    _binary("GreaterEqual"),
    _binary("Less"),
    _binary("LessEqual"),
)
logical_and, logical_or = _binary("LogicalAnd"), _binary("LogicalOr")
xdivy, xlogy, xlog1py = _binary("Xdivy"), _binary("Xlogy"), _binary("Xlog1py")
bitwise_and, bitwise_or, bitwise_xor = _binary("BitwiseAnd"), _binary("BitwiseOr"), _binary("BitwiseXor")
left_shift, right_shift = _binary("LeftShift"), _binary("RightShift")
sub = subtract


def pow(x: Any, y: Any, name: str | None = None) -> Tensor:
    """x to the power of y."""
    return pow_(x, y, name)


def multiply(x: Any, y: Any, name: str | None = None) -> Any:
    """x * y; a SparseTensor times a dense tensor stays sparse."""
    if isinstance(x, (SparseTensor, IndexedSlices)) or isinstance(y, SparseTensor):
        return x * y
    x, y = typed_pair(x, y)
    return apply_op("Mul", name, x=x, y=y)


mul = multiply


def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """A scalar times a tensor, or times the values of an IndexedSlices."""
    scalar = convert_to_tensor(scalar, x.dtype.base_dtype, name="scalar")
    if scalar.shape.rank not in (None, 0):
        raise ValueError("Only scalar multiply works, got shape " + str(scalar.shape))
    if isinstance(x, IndexedSlices):
        return IndexedSlices(apply_op("Mul", name, x=scalar, y=x.values), x.indices, x.dense_shape)
    return apply_op("Mul", name, x=scalar, y=x)


def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """The angle of the point (x, y)."""
    return apply_op("Atan2", name, y=y, x=x)


def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """The next number after x1 towards x2."""
    return apply_op("NextAfter", name, x1=x1, x2=x2)


def equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether x == y, element by element."""
    x, y = typed_pair(x, y)
    return apply_op("Equal", name, x=x, y=y)


def not_equal(x: Any, y: Any, name: str | None = None) -> Tensor:
    """Whether x != y, element by element."""
    x, y = typed_pair(x, y)
    return apply_op("NotEqual", name, x=x, y=y)


def approximate_equal(x: Any, y: Any, tolerance: float = 1e-5, name: str | None = None) -> Tensor:
    """Whether |x - y| < tolerance, element by element."""
    x, y = typed_pair(x, y)
    return apply_op("ApproximateEqual", name, x=x, y=y, tolerance=tolerance)


def logical_xor(x: Any, y: Any, name: str = "LogicalXor") -> Tensor:
    """Whether one of two truth values holds but not both."""
    return logical_and(logical_or(x, y), logical_not(logical_and(x, y)), name=name)


def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularized lower incomplete gamma function."""
    return apply_op("Igamma", name, a=a, x=x)


def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularized upper incomplete gamma function."""
    return apply_op("Igammac", name, a=a, x=x)


def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """The Hurwitz zeta function."""
    return apply_op("Zeta", name, x=x, q=q)


def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """The derivative of order `a` of digamma at x."""
    return apply_op("Polygamma", name, a=a, x=x)


def betainc(a: Any, b: Any, x: Any, name: str | None = None) -> Tensor:
    """The regularized incomplete beta integral."""
    return apply_op("Betainc", name, a=a, b=b, x=x)


divide_no_nan = div_no_nan


def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0."""
    with name_scope(name, "reciprocal_no_nan") as scope:
        tensor = convert_to_tensor(x)
        return apply_op("DivNoNan", scope, x=constant(1, tensor.dtype.base_dtype), y=tensor)


def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Tensor:
    """The polynomial with these coefficients, highest power first."""
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
