"""Gradients of the math family: those TensorFlow builds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import IndexedSlices, constant
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import not_differentiable, register_gradient
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.shapes.indexing import broadcast_gradient_axes

not_differentiable(
    "ApproximateEqual",
    "ArgMax",
    "ArgMin",
    "All",
    "Any",
    "Bincount",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Bucketize",
    "Ceil",
    "DenseBincount",
    "Equal",
    "Greater",
    "GreaterEqual",
    "HistogramFixedWidth",
    "Invert",
    "IsFinite",
    "IsInf",
    "IsNan",
    "LeftShift",
    "Less",
    "LessEqual",
    "LinSpace",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "NotEqual",
    "PopulationCount",
    "Range",
    "RightShift",
    "Rint",
    "Round",
    "Floor",
    "TruncateMod",
    "TruncateDiv",
    "FloorDiv",
)


def reduce_to(x: Tensor, y: Tensor, gx: Tensor | None, gy: Tensor | None) -> list[Tensor | None]:
    """Sum gradients of a broadcast result back to the shapes of its arguments."""
    a, b = x.shape, y.shape
    if a.is_fully_defined() and b.is_fully_defined():
        known_a, known_b = a.known(), b.known()
        if known_a == known_b:
            return [gx, gy]
        full = np.broadcast_shapes(known_a, known_b)
        rx, ry = broadcast_gradient_axes(known_a, known_b)
        return [
            gx if gx is None or known_a == full else _sum_to(gx, constant(rx, dtypes.int32), array_ops.shape(x)),
            gy if gy is None or known_b == full else _sum_to(gy, constant(ry, dtypes.int32), array_ops.shape(y)),
        ]
    sx, sy = apply_op("Shape", input=x), apply_op("Shape", input=y)
    rx, ry = apply_op("BroadcastGradientArgs", s0=sx, s1=sy)
    return [None if gx is None else _sum_to(gx, rx, sx), None if gy is None else _sum_to(gy, ry, sy)]


def _sum_to(grad: Tensor, axes: Tensor, shape: Tensor) -> Tensor:
    return apply_op("Reshape", tensor=apply_op("Sum", input=grad, reduction_indices=axes), shape=shape)  # type: ignore[no-any-return]


def _number(value: float, like: Tensor) -> Tensor:
    return constant(value, like.dtype.base_dtype)


conj = math_ops.conj


# --- one argument ---


@register_gradient("Abs")
def _abs(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.sign(op.inputs[0])


@register_gradient("ComplexAbs")
def _complex_abs(op: Operation, grad: Tensor) -> Any:
    zero = array_ops.zeros_like(grad)
    z = math_ops.complex(grad, zero)
    return math_ops.div_no_nan(z * op.inputs[0], math_ops.complex(op.outputs[0], zero))


@register_gradient("Neg")
def _neg(op: Operation, grad: Tensor) -> Any:
    return -grad


@register_gradient("Inv", "Reciprocal")
def _reciprocal(op: Operation, grad: Tensor) -> Any:
    return apply_op("ReciprocalGrad", y=op.outputs[0], dy=grad)


@register_gradient("ReciprocalGrad", "InvGrad")
def _reciprocal_grad(op: Operation, grad: Tensor) -> Any:
    ca, cg = conj(op.inputs[0]), conj(grad)
    return [cg * _number(-2, grad) * op.inputs[1] * ca, apply_op("ReciprocalGrad", y=ca, dy=grad)]


@register_gradient("Square")
def _square(op: Operation, grad: Tensor) -> Any:
    return grad * (conj(op.inputs[0]) * _number(2, grad))


@register_gradient("Sqrt")
def _sqrt(op: Operation, grad: Tensor) -> Any:
    return apply_op("SqrtGrad", y=op.outputs[0], dy=grad)


@register_gradient("SqrtGrad")
def _sqrt_grad(op: Operation, grad: Tensor) -> Any:
    a, y = op.inputs[0], op.outputs[0]
    ga = grad / a
    return [-conj(ga) * y, _number(0.5, grad) * ga]


@register_gradient("Rsqrt")
def _rsqrt(op: Operation, grad: Tensor) -> Any:
    return apply_op("RsqrtGrad", y=op.outputs[0], dy=grad)


@register_gradient("RsqrtGrad")
def _rsqrt_grad(op: Operation, grad: Tensor) -> Any:
    a, b = op.inputs
    ca, cg = conj(a), conj(grad)
    return [_number(-1.5, grad) * cg * b * math_ops.square(ca), apply_op("RsqrtGrad", y=ca, dy=grad)]


@register_gradient("Exp")
def _exp(op: Operation, grad: Tensor) -> Any:
    return grad * conj(op.outputs[0])


@register_gradient("Expm1")
def _expm1(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.exp(conj(op.inputs[0]))


@register_gradient("Log")
def _log(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.reciprocal(conj(op.inputs[0]))


@register_gradient("Log1p")
def _log1p(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.reciprocal(_number(1, grad) + conj(op.inputs[0]))


@register_gradient("Sinh")
def _sinh(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.cosh(conj(op.inputs[0]))


@register_gradient("Cosh")
def _cosh(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.sinh(conj(op.inputs[0]))


@register_gradient("Tanh")
def _tanh(op: Operation, grad: Tensor) -> Any:
    return apply_op("TanhGrad", y=conj(op.outputs[0]), dy=grad)


@register_gradient("TanhGrad")
def _tanh_grad(op: Operation, grad: Tensor) -> Any:
    a, b = conj(op.inputs[0]), conj(op.inputs[1])
    return [grad * _number(-2, grad) * b * a, apply_op("TanhGrad", y=a, dy=grad)]


@register_gradient("Sigmoid")
def _sigmoid(op: Operation, grad: Tensor) -> Any:
    return apply_op("SigmoidGrad", y=conj(op.outputs[0]), dy=grad)


@register_gradient("SigmoidGrad")
def _sigmoid_grad(op: Operation, grad: Tensor) -> Any:
    a, b = conj(op.inputs[0]), conj(op.inputs[1])
    gb = grad * b
    return [gb - _number(2, grad) * gb * a, apply_op("SigmoidGrad", y=a, dy=grad)]


@register_gradient("Asinh")
def _asinh(op: Operation, grad: Tensor) -> Any:
    return grad / math_ops.cosh(conj(op.outputs[0]))


@register_gradient("Acosh")
def _acosh(op: Operation, grad: Tensor) -> Any:
    return grad / math_ops.sinh(conj(op.outputs[0]))


@register_gradient("Atanh")
def _atanh(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.reciprocal(_number(1, grad) - math_ops.square(conj(op.inputs[0])))


@register_gradient("Sign")
def _sign(op: Operation, grad: Tensor) -> Any:
    return array_ops.zeros_like(op.inputs[0])


@register_gradient("Sin")
def _sin(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.cos(conj(op.inputs[0]))


@register_gradient("Cos")
def _cos(op: Operation, grad: Tensor) -> Any:
    return -grad * math_ops.sin(conj(op.inputs[0]))


@register_gradient("Tan")
def _tan(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.square(math_ops.reciprocal(math_ops.cos(conj(op.inputs[0]))))


@register_gradient("Asin")
def _asin(op: Operation, grad: Tensor) -> Any:
    x = conj(op.inputs[0])
    return grad * math_ops.reciprocal(math_ops.sqrt(_number(1, grad) - math_ops.square(x)))


@register_gradient("Acos")
def _acos(op: Operation, grad: Tensor) -> Any:
    return -_asin(op, grad)


@register_gradient("Atan")
def _atan(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.reciprocal(_number(1, grad) + math_ops.square(conj(op.inputs[0])))


@register_gradient("Erf")
def _erf(op: Operation, grad: Tensor) -> Any:
    return grad * _number(2 / math.sqrt(math.pi), grad) * math_ops.exp(-math_ops.square(conj(op.inputs[0])))


@register_gradient("Erfc")
def _erfc(op: Operation, grad: Tensor) -> Any:
    return grad * _number(-2 / math.sqrt(math.pi), grad) * math_ops.exp(-math_ops.square(conj(op.inputs[0])))


@register_gradient("Erfinv")
def _erfinv(op: Operation, grad: Tensor) -> Any:
    return grad * _number(math.sqrt(math.pi) / 2, grad) * math_ops.exp(math_ops.square(op.outputs[0]))


@register_gradient("Ndtri")
def _ndtri(op: Operation, grad: Tensor) -> Any:
    half = math_ops.square(op.outputs[0]) / _number(2, grad)
    return grad * _number(math.sqrt(2 * math.pi), grad) * math_ops.exp(half)


@register_gradient("Lgamma")
def _lgamma(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.digamma(conj(op.inputs[0]))


@register_gradient("Digamma")
def _digamma(op: Operation, grad: Tensor) -> Any:
    x = conj(op.inputs[0])
    return grad * math_ops.polygamma(_number(1, x), x)


@register_gradient("Dawsn")
def _dawsn(op: Operation, grad: Tensor) -> Any:
    return grad * (_number(1, grad) - _number(2, grad) * op.inputs[0] * op.outputs[0])


@register_gradient("Expint")
def _expint(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    return grad * math_ops.exp(x) / x


@register_gradient("FresnelCos")
def _fresnel_cos(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.cos(_number(math.pi / 2, grad) * math_ops.square(op.inputs[0]))


@register_gradient("FresnelSin")
def _fresnel_sin(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.sin(_number(math.pi / 2, grad) * math_ops.square(op.inputs[0]))


@register_gradient("Spence")
def _spence(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    partial = math_ops.log(x) / (_number(1, x) - x)
    return grad * array_ops.where(math_ops.equal(x, _number(1, x)), -array_ops.ones_like(x), partial)


@register_gradient("BesselI0")
def _i0(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.bessel_i1(op.inputs[0])


@register_gradient("BesselI0e")
def _i0e(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    return grad * (math_ops.bessel_i1e(x) - math_ops.sign(x) * y)


@register_gradient("BesselI1")
def _i1(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    slope = math_ops.bessel_i0(x) - math_ops.div_no_nan(y, x)
    return grad * array_ops.where_v2(math_ops.equal(x, _number(0, x)), _number(0.5, x), slope)


@register_gradient("BesselI1e")
def _i1e(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    slope = math_ops.bessel_i0e(x) - y * (math_ops.sign(x) + math_ops.reciprocal(x))
    return grad * array_ops.where_v2(math_ops.equal(x, _number(0, x)), _number(0.5, x), slope)


@register_gradient("BesselJ0")
def _j0(op: Operation, grad: Tensor) -> Any:
    return -grad * math_ops.bessel_j1(op.inputs[0])


@register_gradient("BesselJ1")
def _j1(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    slope = math_ops.bessel_j0(x) - math_ops.div_no_nan(y, x)
    return grad * array_ops.where_v2(math_ops.equal(x, _number(0, x)), _number(0.5, x), slope)


@register_gradient("BesselK0")
def _k0(op: Operation, grad: Tensor) -> Any:
    return -grad * math_ops.bessel_k1(op.inputs[0])


@register_gradient("BesselK0e")
def _k0e(op: Operation, grad: Tensor) -> Any:
    return grad * (op.outputs[0] - math_ops.bessel_k1e(op.inputs[0]))


@register_gradient("BesselK1")
def _k1(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    return grad * (-math_ops.bessel_k0(x) - math_ops.div_no_nan(y, x))


@register_gradient("BesselK1e")
def _k1e(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    return grad * (y * (_number(1, x) - math_ops.reciprocal(x)) - math_ops.bessel_k0e(x))


@register_gradient("BesselY0")
def _y0(op: Operation, grad: Tensor) -> Any:
    return -grad * math_ops.bessel_y1(op.inputs[0])


@register_gradient("BesselY1")
def _y1(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    return grad * (math_ops.bessel_y0(x) - math_ops.div_no_nan(y, x))


@register_gradient("Real")
def _real(op: Operation, grad: Tensor) -> Any:
    return math_ops.complex(grad, _number(0, grad))


@register_gradient("Imag")
def _imag(op: Operation, grad: Tensor) -> Any:
    return math_ops.complex(_number(0, grad), grad)


@register_gradient("Angle")
def _angle(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    z = math_ops.reciprocal(math_ops.complex(math_ops.imag(x), math_ops.real(x)))
    return -math_ops.complex(grad, array_ops.zeros_like(grad)) * z


@register_gradient("Complex")
def _complex(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to(x, y, math_ops.real(grad), math_ops.imag(grad))


@register_gradient("Conj")
def _conj(op: Operation, grad: Tensor) -> Any:
    return conj(grad)


@register_gradient("Cast")
def _cast(op: Operation, grad: Tensor) -> Any:
    kinds = (
        dtypes.float16,
        dtypes.float32,
        dtypes.float64,
        dtypes.bfloat16,
        dtypes.complex64,
        dtypes.complex128,
    )
    source, target = op.inputs[0].dtype.base_dtype, grad.dtype.base_dtype
    return math_ops.cast(grad, source) if source in kinds and target in kinds else None


# --- two arguments ---


@register_gradient("Add", "AddV2")
def _add(op: Operation, grad: Tensor) -> Any:
    return reduce_to(op.inputs[0], op.inputs[1], grad, grad)


@register_gradient("Sub")
def _sub(op: Operation, grad: Tensor) -> Any:
    return reduce_to(op.inputs[0], op.inputs[1], grad, -grad)


@register_gradient("Mul")
def _mul(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to(x, y, grad * conj(y), conj(x) * grad)


@register_gradient("MulNoNan")
def _mul_no_nan(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to(x, y, math_ops.multiply_no_nan(grad, y), math_ops.multiply_no_nan(x, grad))


@register_gradient("Div", "RealDiv")
def _div(op: Operation, grad: Tensor) -> Any:
    x, y = (conj(t) for t in op.inputs)
    divide = math_ops.realdiv
    return reduce_to(op.inputs[0], op.inputs[1], divide(grad, y), grad * divide(divide(-x, y), y))


@register_gradient("DivNoNan")
def _div_no_nan(op: Operation, grad: Tensor) -> Any:
    x, y = (conj(t) for t in op.inputs)
    divide = math_ops.div_no_nan
    return reduce_to(op.inputs[0], op.inputs[1], divide(grad, y), grad * divide(divide(-x, y), y))


@register_gradient("FloorMod")
def _floor_mod(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to(x, y, grad, grad * -math_ops.floor_div(x, y))


@register_gradient("Pow")
def _pow(op: Operation, grad: Tensor) -> Any:
    x, y, z = op.inputs[0], op.inputs[1], op.outputs[0]
    cx, cy, cz = conj(x), conj(y), conj(z)
    exponent = constant_value(y)
    gx = grad * cy * math_ops.pow(cx, cy - _number(1, y))
    if exponent is not None:
        # What is known to be constant needs no gradient of its own.
        return [reduce_to(x, y, gx, None)[0], None]
    mask = math_ops.not_equal(cx, _number(0, x)) if x.dtype.is_complex else math_ops.greater(cx, _number(0, x))
    safe = apply_op("SelectV2", condition=mask, t=cx, e=array_ops.ones_like(cx))
    log_x = apply_op("SelectV2", condition=mask, t=math_ops.log(safe), e=array_ops.zeros_like(cx))
    return reduce_to(x, y, gx, grad * cz * log_x)


def _extremum(op: Operation, grad: Tensor, chosen: Tensor) -> Any:
    zeros = array_ops.zeros_like(grad)
    gx = apply_op("SelectV2", condition=chosen, t=grad, e=zeros)
    gy = apply_op("SelectV2", condition=chosen, t=zeros, e=grad)
    return reduce_to(op.inputs[0], op.inputs[1], gx, gy)


@register_gradient("Maximum")
def _maximum(op: Operation, grad: Tensor) -> Any:
    return _extremum(op, grad, math_ops.greater_equal(*op.inputs))


@register_gradient("Minimum")
def _minimum(op: Operation, grad: Tensor) -> Any:
    return _extremum(op, grad, math_ops.less_equal(*op.inputs))


@register_gradient("SquaredDifference")
def _squared_difference(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    gx = _number(2, grad) * grad * (x - y)
    return reduce_to(x, y, gx, -gx)


@register_gradient("Atan2")
def _atan2(op: Operation, grad: Tensor) -> Any:
    y, x = op.inputs
    inverse = grad / (math_ops.square(x) + math_ops.square(y))
    return reduce_to(y, x, x * inverse, -y * inverse)


@register_gradient("Xlogy")
def _xlogy(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    some = math_ops.cast(math_ops.not_equal(x, _number(0, x)), x.dtype)
    return reduce_to(x, y, math_ops.xlogy(some, y) * grad, math_ops.xdivy(x, y) * grad)


@register_gradient("Xlog1py")
def _xlog1py(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    some = math_ops.cast(math_ops.not_equal(x, _number(0, x)), x.dtype)
    return reduce_to(x, y, math_ops.xlog1py(some, y) * grad, math_ops.xdivy(x, y + _number(1, y)) * grad)


@register_gradient("Xdivy")
def _xdivy(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    some = math_ops.cast(math_ops.not_equal(x, _number(0, x)), x.dtype)
    return reduce_to(x, y, math_ops.xdivy(some, y) * grad, math_ops.xdivy(-x, math_ops.square(y)) * grad)


@register_gradient("NextAfter")
def _next_after(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to(x, y, array_ops.ones_like(x) * grad, array_ops.zeros_like(y) * grad)


@register_gradient("Igamma")
def _igamma(op: Operation, grad: Tensor) -> Any:
    a, x = op.inputs
    by_a = apply_op("IgammaGradA", a=a, x=x)
    by_x = math_ops.exp(-x + (a - _number(1, a)) * math_ops.log(x) - math_ops.lgamma(a))
    return reduce_to(a, x, by_a * grad, by_x * grad)


@register_gradient("Igammac")
def _igammac(op: Operation, grad: Tensor) -> Any:
    return [-g for g in _igamma(op, grad)]


@register_gradient("Betainc")
def _betainc(op: Operation, grad: Tensor) -> Any:
    a, b, x = op.inputs
    log_beta = math_ops.lgamma(a) + math_ops.lgamma(b) - math_ops.lgamma(a + b)
    one = _number(1, x)
    partial = math_ops.exp((b - one) * math_ops.log1p(-x) + math_ops.xlogy(a - one, x) - log_beta)
    shape = apply_op("Shape", input=x)
    _, axes = apply_op("BroadcastGradientArgs", s0=apply_op("Shape", input=a), s1=shape)
    return [None, None, _sum_to(partial * grad, axes, shape)]


@register_gradient("Zeta")
def _zeta(op: Operation, grad: Tensor) -> Any:
    x, q = op.inputs
    partial = -x * math_ops.zeta(x + _number(1, x), q)
    return [None, reduce_to(x, q, None, partial * grad)[1]]


@register_gradient("Polygamma")
def _polygamma(op: Operation, grad: Tensor) -> Any:
    n, x = op.inputs
    partial = math_ops.polygamma(n + _number(1, n), x)
    return [None, reduce_to(n, x, None, partial * grad)[1]]


@register_gradient("Select")
def _select(op: Operation, grad: Tensor) -> Any:
    condition, x = op.inputs[0], op.inputs[1]
    zeros = array_ops.zeros_like(x)
    return [
        None,
        apply_op("Select", condition=condition, t=grad, e=zeros),
        apply_op("Select", condition=condition, t=zeros, e=grad),
    ]


@register_gradient("SelectV2")
def _select_v2(op: Operation, grad: Tensor) -> Any:
    condition, x, y = op.inputs
    zero = array_ops.zeros([], grad.dtype.base_dtype)
    gx = apply_op("SelectV2", condition=condition, t=grad, e=zero)
    gy = apply_op("SelectV2", condition=condition, t=zero, e=grad)
    full = op.outputs[0]
    return [None, reduce_to(x, full, gx, None)[0], reduce_to(y, full, gy, None)[0]]


@register_gradient("ClipByValue")
def _clip_by_value(op: Operation, grad: Tensor) -> Any:
    x, low, high = op.inputs
    below, above = math_ops.less(x, low), math_ops.greater(x, high)
    zero = array_ops.zeros_like(grad)
    inside = apply_op("SelectV2", condition=math_ops.logical_or(below, above), t=zero, e=grad)
    g_low = apply_op("SelectV2", condition=below, t=grad, e=zero)
    g_high = apply_op("SelectV2", condition=above, t=grad, e=zero)
    return [inside, reduce_to(low, x, g_low, None)[0], reduce_to(high, x, g_high, None)[0]]


@register_gradient("Cross")
def _cross(op: Operation, grad: Tensor) -> Any:
    u, v = op.inputs
    return [math_ops.cross(v, grad), math_ops.cross(grad, u)]


@register_gradient("AddN", "AccumulateNV2")
def _add_n(op: Operation, grad: Tensor) -> Any:
    return [grad] * len(op.inputs)


# --- products ---


@register_gradient("MatMul")
def _matmul(op: Operation, grad: Tensor) -> Any:
    ta, tb = op.attr("transpose_a"), op.attr("transpose_b")
    a, b = conj(op.inputs[0]), conj(op.inputs[1])

    def product(x: Tensor, y: Tensor, tx: bool = False, ty: bool = False) -> Tensor:
        return apply_op("MatMul", a=x, b=y, transpose_a=tx, transpose_b=ty)  # type: ignore[no-any-return]

    if not ta and not tb:
        return [product(grad, b, ty=True), product(a, grad, tx=True)]
    if not ta:
        return [product(grad, b), product(grad, a, tx=True)]
    if not tb:
        return [product(b, grad, ty=True), product(a, grad)]
    return [product(b, grad, True, True), product(grad, a, True, True)]


@register_gradient("SparseMatMul")
def _sparse_matmul(op: Operation, grad: Tensor) -> Any:
    ta, tb = op.attr("transpose_a"), op.attr("transpose_b")
    a, b = op.inputs
    sparse = {a: op.attr("a_is_sparse"), b: op.attr("b_is_sparse"), grad: grad.op.type == "ReluGrad"}

    def product(x: Tensor, y: Tensor, out: Any, tx: bool = False, ty: bool = False) -> Tensor:
        z = apply_op(
            "SparseMatMul", a=x, b=y, transpose_a=tx, transpose_b=ty, a_is_sparse=sparse[x], b_is_sparse=sparse[y]
        )
        return math_ops.cast(z, out)  # type: ignore[no-any-return]

    da, db = a.dtype, b.dtype
    if not ta and not tb:
        return [product(grad, b, da, ty=True), product(a, grad, db, tx=True)]
    if not ta:
        return [product(grad, b, da), product(grad, a, db, tx=True)]
    if not tb:
        return [product(b, grad, da, ty=True), product(a, grad, db)]
    return [product(b, grad, da, True, True), product(grad, a, db, True, True)]


@register_gradient("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    ax, ay = op.attr("adj_x"), op.attr("adj_y")

    def product(a: Tensor, b: Tensor, adj_a: bool, adj_b: bool) -> Tensor:
        return apply_op("BatchMatMulV2", x=a, y=b, adj_x=adj_a, adj_y=adj_b)  # type: ignore[no-any-return]

    if not ax:
        gx = product(grad, y, False, not ay)
        gy = product(grad, x, True, False) if ay else product(x, grad, True, False)
    else:
        gx = product(y, grad, ay, True)
        gy = product(grad, x, True, True) if ay else product(x, grad, False, False)
    if op.type == "BatchMatMul":
        return [gx, gy]
    sx, sy = x.shape, y.shape
    if sx.is_fully_defined() and sy.is_fully_defined():
        bx, by = sx.known()[:-2], sy.known()[:-2]
        if bx == by:
            return [gx, gy]
        rx, ry = (constant(r, dtypes.int32) for r in broadcast_gradient_axes(bx, by))
        return [_sum_to(gx, rx, array_ops.shape(x)), _sum_to(gy, ry, array_ops.shape(y))]
    dx, dy = apply_op("Shape", input=x), apply_op("Shape", input=y)
    rx, ry = apply_op("BroadcastGradientArgs", s0=dx[:-2], s1=dy[:-2])
    return [_sum_to(gx, rx, dx), _sum_to(gy, ry, dy)]


# --- reductions ---


def _kept_shape(op: Operation) -> Tensor:
    """The reduced shape with 1 for every reduced dimension, as a tensor."""
    x, axes = op.inputs
    dims, known = x.shape.dims_or_none, constant_value(axes)
    if dims is not None and None not in dims and known is not None:
        gone = {int(a) % len(dims) for a in known.reshape(-1).tolist()} if dims else set()
        return constant([1 if i in gone else d for i, d in enumerate(dims)], dtypes.int32)
    shape = apply_op("Cast", x=apply_op("Shape", input=x), DstT=dtypes.int32)
    axes = apply_op("Reshape", tensor=math_ops.cast(axes, dtypes.int32), shape=[-1])
    rank = apply_op("Size", input=shape)
    places = apply_op("FloorMod", x=axes + rank, y=rank)
    ones = apply_op("Fill", dims=apply_op("Shape", input=places), value=constant(1, dtypes.int32))
    every = apply_op("Range", start=0, limit=rank, delta=1)
    return apply_op("DynamicStitch", indices=[every, places], data=[shape, ones])  # type: ignore[no-any-return]


@register_gradient("Sum")
def _sum(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    if not op.attr("keep_dims"):
        grad = apply_op("Reshape", tensor=grad, shape=_kept_shape(op))
    return [apply_op("BroadcastTo", input=grad, shape=array_ops.shape(x)), None]


@register_gradient("Mean")
def _mean(op: Operation, grad: Tensor) -> Any:
    spread = _sum(op, grad)[0]
    x, y = op.inputs[0], op.outputs[0]
    a, b = x.shape.num_elements(), y.shape.num_elements()
    if a is not None and b is not None:
        factor: Any = constant(a // max(b, 1), spread.dtype)
    else:
        sizes = [apply_op("Prod", input=apply_op("Shape", input=t), reduction_indices=[0]) for t in (x, y)]
        ratio = apply_op("FloorDiv", x=sizes[0], y=math_ops.maximum(sizes[1], 1))
        factor = math_ops.cast(ratio, spread.dtype)
    return [math_ops.truediv(spread, factor), None]


@register_gradient("Max", "Min")
def _max(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    kept = _kept_shape(op)
    if not op.attr("keep_dims"):
        y, grad = (apply_op("Reshape", tensor=t, shape=kept) for t in (y, grad))
    chosen = math_ops.cast(math_ops.equal(y, x), grad.dtype)
    count = apply_op("Reshape", tensor=apply_op("Sum", input=chosen, reduction_indices=op.inputs[1]), shape=kept)
    return [chosen / count * grad, None]


@register_gradient("Prod")
def _prod(op: Operation, grad: Tensor) -> Any:
    """Each factor's gradient is the product of the others, so that zeros are no trouble."""
    x, axes = op.inputs
    shape = array_ops.shape(x)
    if not op.attr("keep_dims"):
        grad = apply_op("Reshape", tensor=grad, shape=_kept_shape(op))
    grad = apply_op("BroadcastTo", input=grad, shape=shape)
    rank = array_ops.rank(x)
    places = (apply_op("Reshape", tensor=math_ops.cast(axes, dtypes.int32), shape=[-1]) + rank) % rank
    rest, _ = apply_op("ListDiff", x=math_ops.range(rank), y=places)
    perm = array_ops.concat([places, rest], 0)
    inside = apply_op("Prod", input=array_ops.gather(shape, places), reduction_indices=[0])
    outside = apply_op("Prod", input=array_ops.gather(shape, rest), reduction_indices=[0])
    moved = array_ops.transpose(x, perm)
    flat = apply_op("Reshape", tensor=moved, shape=array_ops.stack([inside, outside]))
    before = math_ops.cumprod(flat, axis=0, exclusive=True)
    after = math_ops.cumprod(flat, axis=0, exclusive=True, reverse=True)
    others = apply_op("Reshape", tensor=conj(before) * conj(after), shape=apply_op("Shape", input=moved))
    out = grad * array_ops.transpose(others, array_ops.invert_permutation(perm))
    return [apply_op("Reshape", tensor=out, shape=shape), None]


@register_gradient("EuclideanNorm")
def _euclidean_norm(op: Operation, grad: Tensor) -> Any:
    y = op.outputs[0]
    if not op.attr("keep_dims"):
        kept = _kept_shape(op)
        y, grad = (apply_op("Reshape", tensor=t, shape=kept) for t in (y, grad))
    return [math_ops.truediv(op.inputs[0], math_ops.truediv(y, grad)), None]


@register_gradient("Cumsum")
def _cumsum(op: Operation, grad: Tensor) -> Any:
    out = math_ops.cumsum(grad, op.inputs[1], exclusive=op.attr("exclusive"), reverse=not op.attr("reverse"))
    return [out, None]


@register_gradient("Cumprod")
def _cumprod(op: Operation, grad: Tensor) -> Any:
    x, axis = op.inputs
    exclusive, reverse = op.attr("exclusive"), op.attr("reverse")
    product = math_ops.cumprod(x, axis, exclusive=exclusive, reverse=reverse)
    out = math_ops.cumsum(product * grad, axis, exclusive=exclusive, reverse=not reverse)
    return [math_ops.div_no_nan(out, x), None]


@register_gradient("CumulativeLogsumexp")
def _cumulative_logsumexp(op: Operation, grad: Tensor) -> Any:
    x, axis = op.inputs
    exclusive, reverse = op.attr("exclusive"), op.attr("reverse")
    scan = math_ops.cumulative_logsumexp
    lowest = constant(grad.dtype.min, grad.dtype)
    log_positive = array_ops.where_v2(math_ops.greater(grad, _number(0, grad)), math_ops.log(grad), lowest)
    log_negative = array_ops.where_v2(math_ops.less(grad, _number(0, grad)), math_ops.log(-grad), lowest)
    y = op.outputs[0]
    plus = math_ops.exp(scan(log_positive - y, axis=axis, reverse=not reverse, exclusive=exclusive) + x)
    minus = math_ops.exp(scan(log_negative - y, axis=axis, reverse=not reverse, exclusive=exclusive) + x)
    return [plus - minus, None]


# --- segments ---


@register_gradient("SegmentSum")
def _segment_sum(op: Operation, grad: Tensor) -> Any:
    return [array_ops.gather(grad, op.inputs[1]), None]


@register_gradient("SegmentMean")
def _segment_mean(op: Operation, grad: Tensor) -> Any:
    ids = op.inputs[1]
    rank = array_ops.rank(op.inputs[0])
    shape = array_ops.concat(
        [apply_op("Shape", input=ids), apply_op("Fill", dims=array_ops.expand_dims(rank - 1, 0), value=1)], 0
    )
    ones = apply_op("Fill", dims=shape, value=_number(1, grad))
    scaled = math_ops.divide(grad, math_ops.segment_sum(ones, ids))
    return [array_ops.gather(scaled, ids), None]


@register_gradient("SegmentMax", "SegmentMin")
def _segment_extremum(op: Operation, grad: Tensor) -> Any:
    data, ids = op.inputs
    gathered = array_ops.gather(op.outputs[0], ids)
    chosen = math_ops.equal(data, gathered)
    count = math_ops.segment_sum(math_ops.cast(chosen, grad.dtype), ids)
    share = array_ops.gather(math_ops.divide(grad, count), ids)
    return [array_ops.where(chosen, share, array_ops.zeros_like(share)), None]


@register_gradient("SegmentProd")
def _segment_prod(op: Operation, grad: Tensor) -> Any:
    data, ids = op.inputs
    zero = math_ops.equal(data, _number(0, data))
    zeros = math_ops.segment_sum(math_ops.cast(zero, dtypes.int32), ids)
    grad = apply_op("SelectV2", condition=math_ops.greater(zeros, 1), t=array_ops.zeros_like(grad), e=grad)
    nonzero = apply_op("SelectV2", condition=zero, t=array_ops.ones_like(data), e=data)
    product = array_ops.gather(math_ops.segment_prod(nonzero, ids), ids)
    whole = array_ops.gather(op.outputs[0], ids)
    partial = apply_op("SelectV2", condition=zero, t=product, e=whole / nonzero)
    return [array_ops.gather(grad, ids) * partial, None]


def gather_drop_negatives(grad: Tensor, ids: Tensor) -> tuple[Tensor, Tensor]:
    """grad[ids] with zero rows for negative ids, and which entries are positive (shaped like the rows)."""
    clipped = math_ops.maximum(ids, array_ops.zeros_like(ids))
    gathered = array_ops.gather(grad, clipped)
    positive = math_ops.greater_equal(ids, _number(0, ids))
    extra = gathered.shape.rank
    have = positive.shape.rank
    if extra is not None and have is not None:
        for _ in range(extra - have):
            positive = array_ops.expand_dims(positive, -1)
    else:
        spare = array_ops.rank(gathered) - array_ops.rank(positive)
        ones = apply_op("Fill", dims=array_ops.expand_dims(spare, 0), value=1)
        positive = apply_op(
            "Reshape", tensor=positive, shape=array_ops.concat([apply_op("Shape", input=positive), ones], 0)
        )
    whole = apply_op("LogicalAnd", x=positive, y=array_ops.ones_like(gathered, dtype=dtypes.bool_))
    return apply_op("Select", condition=whole, t=gathered, e=array_ops.zeros_like(gathered)), whole


@register_gradient("UnsortedSegmentSum")
def _unsorted_segment_sum(op: Operation, grad: Tensor) -> Any:
    return [gather_drop_negatives(grad, op.inputs[1])[0], None, None]


@register_gradient("UnsortedSegmentMax", "UnsortedSegmentMin")
def _unsorted_segment_extremum(op: Operation, grad: Tensor) -> Any:
    data, ids, count = op.inputs
    gathered, positive = gather_drop_negatives(op.outputs[0], ids)
    chosen = math_ops.logical_and(math_ops.equal(data, gathered), positive)
    total = math_ops.unsorted_segment_sum(math_ops.cast(chosen, grad.dtype), ids, count)
    share, _ = gather_drop_negatives(math_ops.divide(grad, total), ids)
    return [apply_op("Select", condition=chosen, t=share, e=array_ops.zeros_like(share)), None, None]


@register_gradient("UnsortedSegmentProd")
def _unsorted_segment_prod(op: Operation, grad: Tensor) -> Any:
    data, ids, count = op.inputs
    zero = math_ops.equal(data, _number(0, data))
    zeros = math_ops.unsorted_segment_sum(math_ops.cast(zero, dtypes.int32), ids, count)
    grad = apply_op("SelectV2", condition=math_ops.greater(zeros, 1), t=array_ops.zeros_like(grad), e=grad)
    nonzero = apply_op("SelectV2", condition=zero, t=array_ops.ones_like(data), e=data)
    clipped = math_ops.maximum(ids, array_ops.zeros_like(ids))
    product = array_ops.gather(math_ops.unsorted_segment_prod(nonzero, ids, count), clipped)
    whole = array_ops.gather(op.outputs[0], clipped)
    partial = apply_op("SelectV2", condition=zero, t=product, e=whole / nonzero)
    return [gather_drop_negatives(grad, ids)[0] * partial, None, None]


def _sparse_segment(op: Operation, grad: Tensor, name: str, extra: int) -> Any:
    data, indices, ids = op.inputs[:3]
    nothing = [None] * (2 + extra)
    rows = apply_op("Shape", input=data)
    if op.attr("sparse_gradient"):
        values, unique = apply_op(
            f"{name}GradV2", grad=grad, indices=indices, segment_ids=ids, dense_output_dim0=rows[0]
        )
        return [IndexedSlices(values, unique, rows), *nothing]
    dense = apply_op(f"{name}Grad", grad=grad, indices=indices, segment_ids=ids, output_dim0=rows[0])
    return [dense, *nothing]


for _op_type in ("SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"):

    @register_gradient(_op_type)
    def _plain(op: Operation, grad: Tensor, name: str = _op_type) -> Any:
        return _sparse_segment(op, grad, name, 0)

    @register_gradient(f"{_op_type}WithNumSegments")
    def _sized(op: Operation, grad: Tensor, name: str = _op_type) -> Any:
        return _sparse_segment(op, grad, name, 1)


# --- Fourier transforms ---


def _size_of(x: Tensor, rank: int) -> Tensor:
    count = apply_op("Prod", input=apply_op("Shape", input=x)[-rank:], reduction_indices=[0])
    return math_ops.cast(count, x.dtype)  # type: ignore[no-any-return]


for _suffix, _rank in (("", 1), ("2D", 2), ("3D", 3)):

    @register_gradient(f"FFT{_suffix}")
    def _fft(op: Operation, grad: Tensor, inverse: str = f"IFFT{_suffix}", rank: int = _rank) -> Any:
        return apply_op(inverse, input=grad) * _size_of(op.inputs[0], rank)

    @register_gradient(f"IFFT{_suffix}")
    def _ifft(op: Operation, grad: Tensor, forward: str = f"FFT{_suffix}", rank: int = _rank) -> Any:
        size = math_ops.cast(_size_of(op.inputs[0], rank), grad.dtype)
        return apply_op(forward, input=grad) * math_ops.reciprocal(size)


@register_gradient("RFFT")
def _rfft(op: Operation, grad: Tensor) -> Any:
    """From the inverse transform, which counts inner bins twice, the first (and an even length's last) once."""
    x, length = op.inputs
    n = length[0]
    even = math_ops.cast(1 - n % 2, x.dtype)
    full = apply_op("IRFFT", input=grad, fft_length=length, Treal=x.dtype.base_dtype)
    places = math_ops.cast(math_ops.range(n), x.dtype)
    first, last = math_ops.real(grad[..., 0:1]), math_ops.real(grad[..., -1:])
    alternating = math_ops.cos(places * _number(math.pi, x))
    out = _number(0.5, x) * (full * math_ops.cast(n, x.dtype) + first + even * alternating * last)
    return [apply_op("Reshape", tensor=out, shape=apply_op("Shape", input=x)), None]


@register_gradient("IRFFT")
def _irfft(op: Operation, grad: Tensor) -> Any:
    x, length = op.inputs
    out_type = x.dtype.base_dtype
    size = math_ops.cast(length[0], grad.dtype)
    transformed = apply_op("RFFT", input=grad, fft_length=length, Tcomplex=out_type)
    odd = length[0] % 2
    inner = apply_op("Shape", input=transformed)[-1]
    ones = apply_op("Fill", dims=array_ops.stack([1]), value=_number(1, grad))
    twos = apply_op("Fill", dims=array_ops.stack([inner - 2 + odd]), value=_number(2, grad))
    tail = apply_op("Fill", dims=array_ops.stack([1 - odd]), value=_number(1, grad))
    mask = array_ops.concat([ones, twos, tail], 0)
    scaled = transformed * math_ops.cast(mask / size, out_type)
    return [scaled, None]
