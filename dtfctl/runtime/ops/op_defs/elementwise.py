"""Entries of functions of each element."""

from __future__ import annotations

import math
from typing import Any

from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.gradients.common import number_like
from dtfctl.runtime.ops.op_defs.entry import OpFamily, Unary
from dtfctl.runtime.ops.op_defs.types import COMPLEX, FLOATS, FLOATS_COMPLEX, INDEX, NUMBERS
from dtfctl.runtime.ops.operands import conj

define = OpFamily("math")

define.op(
    "Abs(x: T) -> (y: T); T: type in {bfloat16, half, float, double, int8, int16, int32, int64}; !precision(clear)",
    shape="unchanged",
    gradient=lambda op, grad: grad * sign(op.inputs[0]),
)
acos: Unary = define.unary(f"Acos(x: T) -> (y: T); T: {FLOATS_COMPLEX}", exports=("acos", "math.acos"))
acosh: Unary = define.unary(
    f"Acosh(x: T) -> (y: T); T: {FLOATS_COMPLEX}",
    gradient=lambda op, grad: grad / sinh(conj(op.outputs[0])),
    exports=("acosh", "math.acosh"),
)
define.op(
    f"Angle(input: T) -> (output: Tout); T: {COMPLEX} = complex64; Tout: type in {{float, double}} = float",
    shape="unchanged",
)
asin: Unary = define.unary(f"Asin(x: T) -> (y: T); T: {FLOATS_COMPLEX}", exports=("asin", "math.asin"))
asinh: Unary = define.unary(
    f"Asinh(x: T) -> (y: T); T: {FLOATS_COMPLEX}",
    gradient=lambda op, grad: grad / cosh(conj(op.outputs[0])),
    exports=("asinh", "math.asinh"),
)
atan: Unary = define.unary(
    f"Atan(x: T) -> (y: T); T: {FLOATS_COMPLEX}",
    gradient=lambda op, grad: grad * reciprocal(number_like(1, grad) + square(conj(op.inputs[0]))),
    exports=("atan", "math.atan"),
)
atanh: Unary = define.unary(
    f"Atanh(x: T) -> (y: T); T: {FLOATS_COMPLEX}",
    gradient=lambda op, grad: grad * reciprocal(number_like(1, grad) - square(conj(op.inputs[0]))),
    exports=("atanh", "math.atanh"),
)
define.op("BatchFFT(input: complex64) -> (output: complex64)", shape="unchanged")
define.op("BatchFFT2D(input: complex64) -> (output: complex64)", shape="unchanged")
define.op("BatchFFT3D(input: complex64) -> (output: complex64)", shape="unchanged")
define.op("BatchIFFT(input: complex64) -> (output: complex64)", shape="unchanged")
define.op("BatchIFFT2D(input: complex64) -> (output: complex64)", shape="unchanged")
define.op("BatchIFFT3D(input: complex64) -> (output: complex64)", shape="unchanged")
bessel_i0: Unary = define.unary(
    f"BesselI0(x: T) -> (y: T); T: {FLOATS}",
    gradient=lambda op, grad: grad * bessel_i1(op.inputs[0]),
    exports=("bessel_i0", "math.bessel_i0", "special.bessel_i0"),
    scope="bessel_i0",
)
bessel_i0e: Unary = define.unary(
    f"BesselI0e(x: T) -> (y: T); T: {FLOATS}",
    exports=("bessel_i0e", "math.bessel_i0e", "special.bessel_i0e"),
    scope="bessel_i0e",
)
bessel_i1: Unary = define.unary(
    f"BesselI1(x: T) -> (y: T); T: {FLOATS}",
    exports=("bessel_i1", "math.bessel_i1", "special.bessel_i1"),
    scope="bessel_i1",
)
bessel_i1e: Unary = define.unary(
    f"BesselI1e(x: T) -> (y: T); T: {FLOATS}",
    exports=("bessel_i1e", "math.bessel_i1e", "special.bessel_i1e"),
    scope="bessel_i1e",
)
bessel_j0: Unary = define.unary(
    f"BesselJ0(x: T) -> (y: T); T: {FLOATS}",
    gradient=lambda op, grad: -grad * bessel_j1(op.inputs[0]),
    exports=("bessel_j0", "math.bessel_j0", "special.bessel_j0"),
    scope="bessel_j0",
)
bessel_j1: Unary = define.unary(
    f"BesselJ1(x: T) -> (y: T); T: {FLOATS}",
    exports=("bessel_j1", "math.bessel_j1", "special.bessel_j1"),
    scope="bessel_j1",
)
bessel_k0: Unary = define.unary(
    f"BesselK0(x: T) -> (y: T); T: {FLOATS}",
    gradient=lambda op, grad: -grad * bessel_k1(op.inputs[0]),
    exports=("bessel_k0", "math.bessel_k0", "special.bessel_k0"),
    scope="bessel_k0",
)
bessel_k0e: Unary = define.unary(
    f"BesselK0e(x: T) -> (y: T); T: {FLOATS}",
    gradient=lambda op, grad: grad * (op.outputs[0] - bessel_k1e(op.inputs[0])),
    exports=("bessel_k0e", "math.bessel_k0e", "special.bessel_k0e"),
    scope="bessel_k0e",
)
bessel_k1: Unary = define.unary(
    f"BesselK1(x: T) -> (y: T); T: {FLOATS}",
    exports=("bessel_k1", "math.bessel_k1", "special.bessel_k1"),
    scope="bessel_k1",
)
bessel_k1e: Unary = define.unary(
    f"BesselK1e(x: T) -> (y: T); T: {FLOATS}",
    exports=("bessel_k1e", "math.bessel_k1e", "special.bessel_k1e"),
    scope="bessel_k1e",
)
bessel_y0: Unary = define.unary(
    f"BesselY0(x: T) -> (y: T); T: {FLOATS}",
    gradient=lambda op, grad: -grad * bessel_y1(op.inputs[0]),
    exports=("bessel_y0", "math.bessel_y0", "special.bessel_y0"),
    scope="bessel_y0",
)
bessel_y1: Unary = define.unary(
    f"BesselY1(x: T) -> (y: T); T: {FLOATS}",
    exports=("bessel_y1", "math.bessel_y1", "special.bessel_y1"),
    scope="bessel_y1",
)
define.op(
    "Bucketize(input: T) -> (output: int32); T: type in {int32, int64, float, double}; boundaries: list(float)",
    shape="unchanged",
    gradient="none",
)
define.op("Cast(x: SrcT) -> (y: DstT); SrcT: type; DstT: type; Truncate: bool = false", shape="unchanged")
ceil: Unary = define.unary(
    f"Ceil(x: T) -> (y: T); T: {FLOATS}; !precision(clear)", gradient="none", exports=("ceil", "math.ceil")
)
define.op(
    f"ClipByValue(t: T, clip_value_min: T, clip_value_max: T) -> (output: T); T: {NUMBERS}; !precision(clear)",
    shape="unchanged",
)
define.op(
    f"ComplexAbs(x: T) -> (y: Tout); T: {COMPLEX} = complex64; Tout: type in {{float, double}} = float",
    shape="unchanged",
)
define.op(
    "Conj(input: T) -> (output: T); T: type in {complex64, complex128, variant} = complex64",
    shape="unchanged",
    gradient=lambda op, grad: conj(grad),
)
cos: Unary = define.unary(
    f"Cos(x: T) -> (y: T); T: {FLOATS_COMPLEX}",
    gradient=lambda op, grad: -grad * sin(conj(op.inputs[0])),
    exports=("cos", "math.cos"),
)
cosh: Unary = define.unary(
    f"Cosh(x: T) -> (y: T); T: {FLOATS_COMPLEX}",
    gradient=lambda op, grad: grad * sinh(conj(op.inputs[0])),
    exports=("cosh", "math.cosh"),
)
define.op(
    f"Cumprod(x: T, axis: Tidx) -> (out: T); exclusive: bool = false; reverse: bool = false; T: {NUMBERS}; "
    f"Tidx: {INDEX} = int32",
    shape="unchanged",
)
define.op(
    f"Cumsum(x: T, axis: Tidx) -> (out: T); exclusive: bool = false; reverse: bool = false; T: {NUMBERS}; "
    f"Tidx: {INDEX} = int32",
    shape="unchanged",
)
define.op(
    "CumulativeLogsumexp(x: T, axis: Tidx) -> (out: T); exclusive: bool = false; reverse: bool = false; "
    f"T: {FLOATS}; Tidx: {INDEX} = int32",
    shape="unchanged",
)
dawsn: Unary = define.unary(
    f"Dawsn(x: T) -> (y: T); T: {FLOATS}",
    gradient=lambda op, grad: grad * (number_like(1, grad) - number_like(2, grad) * op.inputs[0] * op.outputs[0]),
    exports=("dawsn", "math.dawsn", "special.dawsn"),
    scope="dawsn",
)
digamma: Unary = define.unary(f"Digamma(x: T) -> (y: T); T: {FLOATS}", exports=("digamma", "math.digamma"))
erf: Unary = define.unary(
    f"Erf(x: T) -> (y: T); T: {FLOATS}; !precision(infer)",
    gradient=lambda op, grad: grad * number_like(2 / math.sqrt(math.pi), grad) * exp(-square(conj(op.inputs[0]))),
    exports=("erf", "math.erf"),
)
erfc: Unary = define.unary(
    f"Erfc(x: T) -> (y: T); T: {FLOATS}; !precision(infer)",
    gradient=lambda op, grad: grad * number_like(-2 / math.sqrt(math.pi), grad) * exp(-square(conj(op.inputs[0]))),
    exports=("erfc", "math.erfc"),
)
erfinv: Unary = define.unary(
    f"Erfinv(x: T) -> (y: T); T: {FLOATS}",
    gradient=lambda op, grad: grad * number_like(math.sqrt(math.pi) / 2, grad) * exp(square(op.outputs[0])),
    exports=("erfinv", "math.erfinv"),
    scope="erfinv",
)
exp: Unary = define.unary(
    f"Exp(x: T) -> (y: T); T: {FLOATS_COMPLEX}; !precision(deny)",
    gradient=lambda op, grad: grad * conj(op.outputs[0]),
    exports=("exp", "math.exp"),
)
expint: Unary = define.unary(
    f"Expint(x: T) -> (y: T); T: {FLOATS}", exports=("expint", "math.expint", "special.expint"), scope="expint"
)
expm1: Unary = define.unary(
    f"Expm1(x: T) -> (y: T); T: {FLOATS_COMPLEX}; !precision(deny)",
    gradient=lambda op, grad: grad * exp(conj(op.inputs[0])),
    exports=("expm1", "math.expm1"),
)


@define.op(
    f"FFT(input: Tcomplex) -> (output: Tcomplex); Tcomplex: {COMPLEX} = complex64",
    shape="unchanged",
    exports=("fft", "math.fft", "signal.fft", "spectral.fft"),
)
def fft(input: Any, name: str | None = None) -> Tensor:
    """Compute the discrete Fourier transform along the last dimension."""


@define.op(
    f"FFT2D(input: Tcomplex) -> (output: Tcomplex); Tcomplex: {COMPLEX} = complex64",
    shape="unchanged",
    exports=("fft2d", "math.fft2d", "signal.fft2d", "spectral.fft2d"),
)
def fft2d(input: Any, name: str | None = None) -> Tensor:
    """Compute the Fourier transform along the last two dimensions."""


@define.op(
    f"FFT3D(input: Tcomplex) -> (output: Tcomplex); Tcomplex: {COMPLEX} = complex64",
    shape="unchanged",
    exports=("fft3d", "math.fft3d", "signal.fft3d", "spectral.fft3d"),
)
def fft3d(input: Any, name: str | None = None) -> Tensor:
    """Compute the Fourier transform along the last three dimensions."""


floor: Unary = define.unary(
    f"Floor(x: T) -> (y: T); T: {FLOATS}; !precision(clear)", gradient="none", exports=("floor", "math.floor")
)
fresnel_cos: Unary = define.unary(
    f"FresnelCos(x: T) -> (y: T); T: {FLOATS}",
    gradient=lambda op, grad: grad * cos(number_like(math.pi / 2, grad) * square(op.inputs[0])),
    exports=("fresnel_cos", "math.fresnel_cos", "special.fresnel_cos"),
    scope="fresnel_cos",
)
fresnel_sin: Unary = define.unary(
    f"FresnelSin(x: T) -> (y: T); T: {FLOATS}",
    gradient=lambda op, grad: grad * sin(number_like(math.pi / 2, grad) * square(op.inputs[0])),
    exports=("fresnel_sin", "math.fresnel_sin", "special.fresnel_sin"),
    scope="fresnel_sin",
)


@define.op(
    f"IFFT(input: Tcomplex) -> (output: Tcomplex); Tcomplex: {COMPLEX} = complex64",
    shape="unchanged",
    exports=("ifft", "math.ifft", "signal.ifft", "spectral.ifft"),
)
def ifft(input: Any, name: str | None = None) -> Tensor:
    """Compute the inverse Fourier transform along the last dimension."""


@define.op(
    f"IFFT2D(input: Tcomplex) -> (output: Tcomplex); Tcomplex: {COMPLEX} = complex64",
    shape="unchanged",
    exports=("ifft2d", "math.ifft2d", "signal.ifft2d", "spectral.ifft2d"),
)
def ifft2d(input: Any, name: str | None = None) -> Tensor:
    """Compute the inverse Fourier transform along the last two dimensions."""


@define.op(
    f"IFFT3D(input: Tcomplex) -> (output: Tcomplex); Tcomplex: {COMPLEX} = complex64",
    shape="unchanged",
    exports=("ifft3d", "math.ifft3d", "signal.ifft3d", "spectral.ifft3d"),
)
def ifft3d(input: Any, name: str | None = None) -> Tensor:
    """Compute the inverse Fourier transform along the last three dimensions."""


define.op(
    f"Imag(input: T) -> (output: Tout); T: {COMPLEX} = complex64; Tout: type in {{float, double}} = float",
    shape="unchanged",
)
define.op(
    "Inv(x: T) -> (y: T); T: type in {bfloat16, half, float, double, int8, int16, int32, int64, complex64, "
    "complex128}; !precision(infer)",
    shape="unchanged",
    gradient=lambda op, grad: apply_op("ReciprocalGrad", y=op.outputs[0], dy=grad),
)
define.op(f"InvGrad(y: T, dy: T) -> (z: T); T: {FLOATS_COMPLEX}", shape="unchanged")
invert: Unary = define.unary(
    "Invert(x: T) -> (y: T); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}",
    gradient="none",
    exports=("invert", "bitwise.invert", "math.invert"),
)
is_finite: Unary = define.unary(
    f"IsFinite(x: T) -> (y: bool); T: {FLOATS}; !precision(clear)",
    gradient="none",
    exports=("is_finite", "debugging.is_finite", "math.is_finite"),
)
is_inf: Unary = define.unary(
    f"IsInf(x: T) -> (y: bool); T: {FLOATS}; !precision(clear)",
    gradient="none",
    exports=("is_inf", "debugging.is_inf", "math.is_inf"),
)
is_nan: Unary = define.unary(
    f"IsNan(x: T) -> (y: bool); T: {FLOATS}; !precision(clear)",
    gradient="none",
    exports=("is_nan", "debugging.is_nan", "math.is_nan"),
)
lgamma: Unary = define.unary(
    f"Lgamma(x: T) -> (y: T); T: {FLOATS}",
    gradient=lambda op, grad: grad * digamma(conj(op.inputs[0])),
    exports=("lgamma", "math.lgamma"),
)
log: Unary = define.unary(
    f"Log(x: T) -> (y: T); T: {FLOATS_COMPLEX}; !precision(infer)",
    gradient=lambda op, grad: grad * reciprocal(conj(op.inputs[0])),
    exports=("log", "math.log"),
)
log1p: Unary = define.unary(
    f"Log1p(x: T) -> (y: T); T: {FLOATS_COMPLEX}; !precision(infer)",
    gradient=lambda op, grad: grad * reciprocal(number_like(1, grad) + conj(op.inputs[0])),
    exports=("log1p", "math.log1p"),
)
logical_not: Unary = define.unary(
    "LogicalNot(x: bool) -> (y: bool)", gradient="none", exports=("logical_not", "math.logical_not")
)
ndtri: Unary = define.unary(f"Ndtri(x: T) -> (y: T); T: {FLOATS}", exports=("ndtri", "math.ndtri"), scope="ndtri")
negative: Unary = define.unary(
    "Neg(x: T) -> (y: T); T: type in {bfloat16, half, float, double, int8, int16, int32, int64, complex64, "
    "complex128}; !precision(clear)",
    gradient=lambda op, grad: -grad,
    exports=("neg", "negative", "math.neg", "math.negative"),
)
population_count: Unary = define.unary(
    "PopulationCount(x: T) -> (y: uint8); T: type in {int8, int16, int32, int64, uint8, uint16, uint32, uint64}",
    gradient="none",
    exports=("population_count", "math.population_count"),
)
define.op(
    f"Real(input: T) -> (output: Tout); T: {COMPLEX} = complex64; Tout: type in {{float, double}} = float",
    shape="unchanged",
)
reciprocal: Unary = define.unary(
    "Reciprocal(x: T) -> (y: T); T: type in {bfloat16, half, float, double, int8, int16, int32, int64, "
    "complex64, complex128}; !precision(infer)",
    gradient=lambda op, grad: apply_op("ReciprocalGrad", y=op.outputs[0], dy=grad),
    exports=("reciprocal", "math.reciprocal"),
)
define.op(f"ReciprocalGrad(y: T, dy: T) -> (z: T); T: {FLOATS_COMPLEX}", shape="unchanged")
rint: Unary = define.unary(f"Rint(x: T) -> (y: T); T: {FLOATS}", gradient="none", exports=("rint", "math.rint"))
define.op(
    "Round(x: T) -> (y: T); T: type in {bfloat16, half, float, double, int8, int16, int32, int64, complex64, "
    "complex128}; !precision(clear)",
    shape="unchanged",
    gradient="none",
)
rsqrt: Unary = define.unary(
    f"Rsqrt(x: T) -> (y: T); T: {FLOATS_COMPLEX}; !precision(bfloat16: infer)",
    gradient=lambda op, grad: apply_op("RsqrtGrad", y=op.outputs[0], dy=grad),
    exports=("rsqrt", "math.rsqrt"),
)
define.op(f"RsqrtGrad(y: T, dy: T) -> (z: T); T: {FLOATS_COMPLEX}", shape="unchanged")
sigmoid: Unary = define.unary(
    f"Sigmoid(x: T) -> (y: T); T: {FLOATS_COMPLEX}; !precision(infer)",
    gradient=lambda op, grad: apply_op("SigmoidGrad", y=conj(op.outputs[0]), dy=grad),
    exports=("sigmoid", "math.sigmoid", "nn.sigmoid"),
)
define.op(f"SigmoidGrad(y: T, dy: T) -> (z: T); T: {FLOATS_COMPLEX}; !precision(infer)", shape="unchanged")
sign: Unary = define.unary(
    "Sign(x: T) -> (y: T); T: type in {bfloat16, half, float, double, int8, int16, int32, int64, complex64, "
    "complex128}; !precision(clear)",
    exports=("sign", "math.sign"),
)
sin: Unary = define.unary(
    f"Sin(x: T) -> (y: T); T: {FLOATS_COMPLEX}",
    gradient=lambda op, grad: grad * cos(conj(op.inputs[0])),
    exports=("sin", "math.sin"),
)
sinh: Unary = define.unary(
    f"Sinh(x: T) -> (y: T); T: {FLOATS_COMPLEX}",
    gradient=lambda op, grad: grad * cosh(conj(op.inputs[0])),
    exports=("sinh", "math.sinh"),
)
spence: Unary = define.unary(
    f"Spence(x: T) -> (y: T); T: {FLOATS}", exports=("spence", "math.spence", "special.spence"), scope="spence"
)
sqrt: Unary = define.unary(
    f"Sqrt(x: T) -> (y: T); T: {FLOATS_COMPLEX}; !precision(infer)",
    gradient=lambda op, grad: apply_op("SqrtGrad", y=op.outputs[0], dy=grad),
    exports=("sqrt", "math.sqrt"),
)
define.op(f"SqrtGrad(y: T, dy: T) -> (z: T); T: {FLOATS_COMPLEX}", shape="unchanged")
square: Unary = define.unary(
    "Square(x: T) -> (y: T); T: type in {bfloat16, half, float, double, int8, int16, int32, int64, uint8, "
    "uint16, uint32, uint64, complex64, complex128}; !precision(bfloat16: infer)",
    gradient=lambda op, grad: grad * (conj(op.inputs[0]) * number_like(2, grad)),
    exports=("square", "math.square"),
)
tan: Unary = define.unary(
    f"Tan(x: T) -> (y: T); T: {FLOATS_COMPLEX}",
    gradient=lambda op, grad: grad * square(reciprocal(cos(conj(op.inputs[0])))),
    exports=("tan", "math.tan"),
)
tanh: Unary = define.unary(
    f"Tanh(x: T) -> (y: T); T: {FLOATS_COMPLEX}; !precision(infer)",
    gradient=lambda op, grad: apply_op("TanhGrad", y=conj(op.outputs[0]), dy=grad),
    exports=("tanh", "math.tanh", "nn.tanh"),
)
define.op(f"TanhGrad(y: T, dy: T) -> (z: T); T: {FLOATS_COMPLEX}; !precision(infer)", shape="unchanged")
