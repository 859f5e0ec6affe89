"""Entries of functions of two broadcast arguments."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.gradients.common import reduce_to
from dtfctl.runtime.ops.op_defs.entry import Binary, OpFamily
from dtfctl.runtime.ops.op_defs.types import COMPLEX, FLOATS, FLOATS_COMPLEX, REALS

define = OpFamily("math")

define.op(
    "Add(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, int16, int32, int64, "
    "complex64, complex128, string}",
    shape="broadcast",
    gradient=lambda op, grad: reduce_to(op.inputs[0], op.inputs[1], grad, grad),
)
add: Binary = define.binary(
    "AddV2(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, uint16, uint32, uint64, "
    "int8, int16, int32, int64, complex64, complex128}; !commutative aggregate",
    gradient=lambda op, grad: reduce_to(op.inputs[0], op.inputs[1], grad, grad),
    default_name="Add",
)


@define.op(f"Atan2(y: T, x: T) -> (z: T); T: {FLOATS}", shape="broadcast")
def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """Compute the angle of the point (x, y)."""


bitwise_and: Binary = define.binary(
    "BitwiseAnd(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}; "
    "!commutative",
    gradient="none",
)
bitwise_or: Binary = define.binary(
    "BitwiseOr(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}; "
    "!commutative",
    gradient="none",
)
bitwise_xor: Binary = define.binary(
    "BitwiseXor(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}; "
    "!commutative",
    gradient="none",
)
define.op(
    f"Complex(real: T, imag: T) -> (out: Tout); T: type in {{float, double}} = float; Tout: {COMPLEX} = complex64",
    shape="broadcast",
)
define.op(
    "Div(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, "
    "uint32, uint64, int64, complex64, complex128}",
    shape="broadcast",
)
div_no_nan: Binary = define.binary(
    "DivNoNan(x: T, y: T) -> (z: T); T: type in {half, float, bfloat16, double, complex64, complex128}"
)
floor_div: Binary = define.binary(
    "FloorDiv(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, int16, "
    "int32, uint32, uint64, int64, complex64, complex128}",
    gradient="none",
)
mod_: Binary = define.binary(
    "FloorMod(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
    "bfloat16, half, float, double}"
)
greater: Binary = define.binary(f"Greater(x: T, y: T) -> (z: bool); T: {REALS}", gradient="none")
greater_equal: Binary = define.binary(f"GreaterEqual(x: T, y: T) -> (z: bool); T: {REALS}", gradient="none")


@define.op(f"Igamma(a: T, x: T) -> (z: T); T: {FLOATS}", shape="broadcast")
def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Compute the regularized lower incomplete gamma function."""


define.op("IgammaGradA(a: T, x: T) -> (z: T); T: type in {float, double}", shape="broadcast")


@define.op(f"Igammac(a: T, x: T) -> (z: T); T: {FLOATS}", shape="broadcast")
def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Compute the regularized upper incomplete gamma function."""


left_shift: Binary = define.binary(
    "LeftShift(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}",
    gradient="none",
)
less: Binary = define.binary(f"Less(x: T, y: T) -> (z: bool); T: {REALS}", gradient="none")
less_equal: Binary = define.binary(f"LessEqual(x: T, y: T) -> (z: bool); T: {REALS}", gradient="none")
logical_and: Binary = define.binary("LogicalAnd(x: bool, y: bool) -> (z: bool); !commutative", gradient="none")
logical_or: Binary = define.binary("LogicalOr(x: bool, y: bool) -> (z: bool); !commutative", gradient="none")
maximum: Binary = define.binary(
    "Maximum(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, int8, uint8, int16, uint16, "
    "int32, uint32, int64, uint64}"
)
minimum: Binary = define.binary(
    "Minimum(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, int8, uint8, int16, uint16, "
    "int32, uint32, int64, uint64}"
)
define.op(
    "Mod(x: T, y: T) -> (z: T); T: type in {int32, int64, half, half, bfloat16, float, double}", shape="broadcast"
)
define.op(
    "Mul(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, "
    "uint32, uint64, int64, complex64, complex128}; !commutative",
    shape="broadcast",
)
multiply_no_nan: Binary = define.binary(f"MulNoNan(x: T, y: T) -> (z: T); T: {FLOATS_COMPLEX}")


@define.op("NextAfter(x1: T, x2: T) -> (output: T); T: type in {double, float} = float", shape="broadcast")
def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """Find the next number after x1 towards x2."""


@define.op("Polygamma(a: T, x: T) -> (z: T); T: type in {float, double}", shape="broadcast")
def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Compute the derivative of order `a` of digamma at x."""


pow_: Binary = define.binary(
    "Pow(x: T, y: T) -> (z: T); T: type in {bfloat16, float, half, double, int8, int16, int32, int64, "
    "complex64, complex128}"
)
realdiv: Binary = define.binary(
    "RealDiv(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, int16, "
    "int32, uint32, uint64, int64, complex64, complex128}"
)
right_shift: Binary = define.binary(
    "RightShift(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}",
    gradient="none",
)
squared_difference: Binary = define.binary(
    "SquaredDifference(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, int32, int64, "
    "complex64, complex128}; !commutative"
)
subtract: Binary = define.binary(
    "Sub(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, "
    "int64, complex64, complex128, uint32, uint64}",
    gradient=lambda op, grad: reduce_to(op.inputs[0], op.inputs[1], grad, -grad),
)
truncatediv: Binary = define.binary(
    "TruncateDiv(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, "
    "int16, int32, uint32, uint64, int64, complex64, complex128}",
    gradient="none",
)
truncatemod: Binary = define.binary(
    "TruncateMod(x: T, y: T) -> (z: T); T: type in {int32, int64, bfloat16, half, float, double}", gradient="none"
)
xdivy: Binary = define.binary(
    "Xdivy(x: T, y: T) -> (z: T); T: type in {half, bfloat16, float, double, complex64, complex128}"
)
xlog1py: Binary = define.binary(
    "Xlog1py(x: T, y: T) -> (z: T); T: type in {half, bfloat16, float, double, complex64, complex128}"
)
xlogy: Binary = define.binary(
    "Xlogy(x: T, y: T) -> (z: T); T: type in {half, bfloat16, float, double, complex64, complex128}"
)


@define.op("Zeta(x: T, q: T) -> (z: T); T: type in {float, double}", shape="broadcast")
def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """Compute the Hurwitz zeta function."""
