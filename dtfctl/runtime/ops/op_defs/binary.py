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
    "complex64, complex128, string}; !precision(infer)",
    shape="broadcast",
    gradient=lambda op, grad: reduce_to(op.inputs[0], op.inputs[1], grad, grad),
)
add: Binary = define.binary(
    "AddV2(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, uint16, uint32, uint64, "
    "int8, int16, int32, int64, complex64, complex128}; !commutative aggregate; !precision(infer)",
    gradient=lambda op, grad: reduce_to(op.inputs[0], op.inputs[1], grad, grad),
    default_name="Add",
    exports=("add", "math.add"),
)


@define.op(f"Atan2(y: T, x: T) -> (z: T); T: {FLOATS}", shape="broadcast", exports=("atan2", "math.atan2"))
def atan2(y: Any, x: Any, name: str | None = None) -> Tensor:
    """Compute the angle of the point (x, y)."""


bitwise_and: Binary = define.binary(
    "BitwiseAnd(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}; "
    "!commutative",
    gradient="none",
    exports=("bitwise_and", "bitwise.bitwise_and", "math.bitwise_and"),
)
bitwise_or: Binary = define.binary(
    "BitwiseOr(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}; "
    "!commutative",
    gradient="none",
    exports=("bitwise_or", "bitwise.bitwise_or", "math.bitwise_or"),
)
bitwise_xor: Binary = define.binary(
    "BitwiseXor(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}; "
    "!commutative",
    gradient="none",
    exports=("bitwise_xor", "bitwise.bitwise_xor", "math.bitwise_xor"),
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
    "DivNoNan(x: T, y: T) -> (z: T); T: type in {half, float, bfloat16, double, complex64, complex128}",
    default_name="div_no_nan",
    exports=("div_no_nan", "math.div_no_nan", "math.divide_no_nan"),
)
floor_div: Binary = define.binary(
    "FloorDiv(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, int16, "
    "int32, uint32, uint64, int64, complex64, complex128}; !precision(infer)",
    gradient="none",
    exports=("floor_div", "math.floor_div"),
)
mod_: Binary = define.binary(
    "FloorMod(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
    "bfloat16, half, float, double}",
    exports=("floor_mod", "floormod", "mod", "math.floor_mod", "math.floormod", "math.mod"),
)
greater: Binary = define.binary(
    f"Greater(x: T, y: T) -> (z: bool); T: {REALS}; !precision(clear)",
    gradient="none",
    exports=("greater", "math.greater"),
)
greater_equal: Binary = define.binary(
    f"GreaterEqual(x: T, y: T) -> (z: bool); T: {REALS}; !precision(clear)",
    gradient="none",
    exports=("greater_equal", "math.greater_equal"),
)


@define.op(f"Igamma(a: T, x: T) -> (z: T); T: {FLOATS}", shape="broadcast", exports=("igamma", "math.igamma"))
def igamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Compute the regularized lower incomplete gamma function."""


define.op("IgammaGradA(a: T, x: T) -> (z: T); T: type in {float, double}", shape="broadcast")


@define.op(f"Igammac(a: T, x: T) -> (z: T); T: {FLOATS}", shape="broadcast", exports=("igammac", "math.igammac"))
def igammac(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Compute the regularized upper incomplete gamma function."""


left_shift: Binary = define.binary(
    "LeftShift(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}",
    gradient="none",
    exports=("left_shift", "bitwise.left_shift", "math.left_shift"),
)
less: Binary = define.binary(
    f"Less(x: T, y: T) -> (z: bool); T: {REALS}; !precision(clear)", gradient="none", exports=("less", "math.less")
)
less_equal: Binary = define.binary(
    f"LessEqual(x: T, y: T) -> (z: bool); T: {REALS}; !precision(clear)",
    gradient="none",
    exports=("less_equal", "math.less_equal"),
)
logical_and: Binary = define.binary(
    "LogicalAnd(x: bool, y: bool) -> (z: bool); !commutative",
    gradient="none",
    exports=("logical_and", "math.logical_and"),
)
logical_or: Binary = define.binary(
    "LogicalOr(x: bool, y: bool) -> (z: bool); !commutative", gradient="none", exports=("logical_or", "math.logical_or")
)
maximum: Binary = define.binary(
    "Maximum(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, int8, uint8, int16, uint16, "
    "int32, uint32, int64, uint64}; !precision(clear)",
    exports=("maximum", "math.maximum"),
)
minimum: Binary = define.binary(
    "Minimum(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, int8, uint8, int16, uint16, "
    "int32, uint32, int64, uint64}; !precision(clear)",
    exports=("minimum", "math.minimum"),
)
define.op(
    "Mod(x: T, y: T) -> (z: T); T: type in {int32, int64, half, half, bfloat16, float, double}", shape="broadcast"
)
define.op(
    "Mul(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, "
    "uint32, uint64, int64, complex64, complex128}; !commutative; !precision(infer)",
    shape="broadcast",
)
multiply_no_nan: Binary = define.binary(
    f"MulNoNan(x: T, y: T) -> (z: T); T: {FLOATS_COMPLEX}", exports=("multiply_no_nan", "math.multiply_no_nan")
)


@define.op(
    "NextAfter(x1: T, x2: T) -> (output: T); T: type in {double, float} = float",
    shape="broadcast",
    exports=("nextafter", "math.nextafter"),
)
def nextafter(x1: Any, x2: Any, name: str | None = None) -> Tensor:
    """Find the next number after x1 towards x2."""


@define.op(
    "Polygamma(a: T, x: T) -> (z: T); T: type in {float, double}",
    shape="broadcast",
    exports=("polygamma", "math.polygamma"),
)
def polygamma(a: Any, x: Any, name: str | None = None) -> Tensor:
    """Compute the derivative of order `a` of digamma at x."""


pow_: Binary = define.binary(
    "Pow(x: T, y: T) -> (z: T); T: type in {bfloat16, float, half, double, int8, int16, int32, int64, "
    "complex64, complex128}; !precision(deny)"
)
realdiv: Binary = define.binary(
    "RealDiv(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, int16, "
    "int32, uint32, uint64, int64, complex64, complex128}; !precision(infer)",
    exports=("realdiv", "math.realdiv"),
)
right_shift: Binary = define.binary(
    "RightShift(x: T, y: T) -> (z: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}",
    gradient="none",
    exports=("right_shift", "bitwise.right_shift", "math.right_shift"),
)
squared_difference: Binary = define.binary(
    "SquaredDifference(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, int32, int64, "
    "complex64, complex128}; !commutative; !precision(bfloat16: infer)",
    exports=("squared_difference", "math.squared_difference"),
)
subtract: Binary = define.binary(
    "Sub(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, "
    "int64, complex64, complex128, uint32, uint64}; !precision(infer)",
    gradient=lambda op, grad: reduce_to(op.inputs[0], op.inputs[1], grad, -grad),
    exports=("sub", "subtract", "math.sub", "math.subtract"),
)
truncatediv: Binary = define.binary(
    "TruncateDiv(x: T, y: T) -> (z: T); T: type in {bfloat16, half, float, double, uint8, int8, uint16, "
    "int16, int32, uint32, uint64, int64, complex64, complex128}",
    gradient="none",
    exports=("truncatediv", "math.truncatediv"),
)
truncatemod: Binary = define.binary(
    "TruncateMod(x: T, y: T) -> (z: T); T: type in {int32, int64, bfloat16, half, float, double}",
    gradient="none",
    exports=("truncatemod", "math.truncatemod"),
)
xdivy: Binary = define.binary(
    "Xdivy(x: T, y: T) -> (z: T); T: type in {half, bfloat16, float, double, complex64, complex128}",
    exports=("xdivy", "math.xdivy"),
    scope="xdivy",
)
xlog1py: Binary = define.binary(
    "Xlog1py(x: T, y: T) -> (z: T); T: type in {half, bfloat16, float, double, complex64, complex128}",
    exports=("xlog1py", "math.xlog1py"),
    scope="xlog1py",
)
xlogy: Binary = define.binary(
    "Xlogy(x: T, y: T) -> (z: T); T: type in {half, bfloat16, float, double, complex64, complex128}",
    exports=("xlogy", "math.xlogy"),
)


@define.op("Zeta(x: T, q: T) -> (z: T); T: type in {float, double}", shape="broadcast", exports=("zeta", "math.zeta"))
def zeta(x: Any, q: Any, name: str | None = None) -> Tensor:
    """Compute the Hurwitz zeta function."""
