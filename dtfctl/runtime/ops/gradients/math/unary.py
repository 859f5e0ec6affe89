"""Gradients of functions of each element, and of casts."""

from __future__ import annotations

import math
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.gradients.common import number_like, reduce_to


@register_gradient("ComplexAbs")
def _complex_abs(op: Operation, grad: Tensor) -> Any:
    zero = array_ops.zeros_like(grad)
    z = math_ops.complex(grad, zero)
    return math_ops.div_no_nan(z * op.inputs[0], math_ops.complex(op.outputs[0], zero))


@register_gradient("ReciprocalGrad", "InvGrad")
def _reciprocal_grad(op: Operation, grad: Tensor) -> Any:
    ca, cg = math_ops.conj(op.inputs[0]), math_ops.conj(grad)
    return [cg * number_like(-2, grad) * op.inputs[1] * ca, apply_op("ReciprocalGrad", y=ca, dy=grad)]


@register_gradient("SqrtGrad")
def _sqrt_grad(op: Operation, grad: Tensor) -> Any:
    a, y = op.inputs[0], op.outputs[0]
    ga = grad / a
    return [-math_ops.conj(ga) * y, number_like(0.5, grad) * ga]


@register_gradient("RsqrtGrad")
def _rsqrt_grad(op: Operation, grad: Tensor) -> Any:
    a, b = op.inputs
    ca, cg = math_ops.conj(a), math_ops.conj(grad)
    return [number_like(-1.5, grad) * cg * b * math_ops.square(ca), apply_op("RsqrtGrad", y=ca, dy=grad)]


@register_gradient("TanhGrad")
def _tanh_grad(op: Operation, grad: Tensor) -> Any:
    a, b = math_ops.conj(op.inputs[0]), math_ops.conj(op.inputs[1])
    return [grad * number_like(-2, grad) * b * a, apply_op("TanhGrad", y=a, dy=grad)]


@register_gradient("SigmoidGrad")
def _sigmoid_grad(op: Operation, grad: Tensor) -> Any:
    a, b = math_ops.conj(op.inputs[0]), math_ops.conj(op.inputs[1])
    gb = grad * b
    return [gb - number_like(2, grad) * gb * a, apply_op("SigmoidGrad", y=a, dy=grad)]


@register_gradient("Sign")
def _sign(op: Operation, grad: Tensor) -> Any:
    return array_ops.zeros_like(op.inputs[0])


@register_gradient("Asin")
def _asin(op: Operation, grad: Tensor) -> Any:
    x = math_ops.conj(op.inputs[0])
    return grad * math_ops.reciprocal(math_ops.sqrt(number_like(1, grad) - math_ops.square(x)))


@register_gradient("Acos")
def _acos(op: Operation, grad: Tensor) -> Any:
    return -_asin(op, grad)


@register_gradient("Ndtri")
def _ndtri(op: Operation, grad: Tensor) -> Any:
    half = math_ops.square(op.outputs[0]) / number_like(2, grad)
    return grad * number_like(math.sqrt(2 * math.pi), grad) * math_ops.exp(half)


@register_gradient("Digamma")
def _digamma(op: Operation, grad: Tensor) -> Any:
    x = math_ops.conj(op.inputs[0])
    return grad * math_ops.polygamma(number_like(1, x), x)


@register_gradient("Expint")
def _expint(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    return grad * math_ops.exp(x) / x


@register_gradient("Spence")
def _spence(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    partial = math_ops.log(x) / (number_like(1, x) - x)
    return grad * array_ops.where(math_ops.equal(x, number_like(1, x)), -array_ops.ones_like(x), partial)


@register_gradient("BesselI0e")
def _i0e(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    return grad * (math_ops.bessel_i1e(x) - math_ops.sign(x) * y)


@register_gradient("BesselI1")
def _i1(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    slope = math_ops.bessel_i0(x) - math_ops.div_no_nan(y, x)
    return grad * array_ops.where_v2(math_ops.equal(x, number_like(0, x)), number_like(0.5, x), slope)


@register_gradient("BesselI1e")
def _i1e(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    slope = math_ops.bessel_i0e(x) - y * (math_ops.sign(x) + math_ops.reciprocal(x))
    return grad * array_ops.where_v2(math_ops.equal(x, number_like(0, x)), number_like(0.5, x), slope)


@register_gradient("BesselJ1")
def _j1(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    slope = math_ops.bessel_j0(x) - math_ops.div_no_nan(y, x)
    return grad * array_ops.where_v2(math_ops.equal(x, number_like(0, x)), number_like(0.5, x), slope)


@register_gradient("BesselK1")
def _k1(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    return grad * (-math_ops.bessel_k0(x) - math_ops.div_no_nan(y, x))


@register_gradient("BesselK1e")
def _k1e(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    return grad * (y * (number_like(1, x) - math_ops.reciprocal(x)) - math_ops.bessel_k0e(x))


@register_gradient("BesselY1")
def _y1(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[0], op.outputs[0]
    return grad * (math_ops.bessel_y0(x) - math_ops.div_no_nan(y, x))


@register_gradient("Real")
def _real(op: Operation, grad: Tensor) -> Any:
    return math_ops.complex(grad, number_like(0, grad))


@register_gradient("Imag")
def _imag(op: Operation, grad: Tensor) -> Any:
    return math_ops.complex(number_like(0, grad), grad)


@register_gradient("Angle")
def _angle(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[0]
    z = math_ops.reciprocal(math_ops.complex(math_ops.imag(x), math_ops.real(x)))
    return -math_ops.complex(grad, array_ops.zeros_like(grad)) * z


@register_gradient("Complex")
def _complex(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to(x, y, math_ops.real(grad), math_ops.imag(grad))


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
