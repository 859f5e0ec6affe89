"""Gradients of functions of several broadcast tensors, element by element."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.registries import register_gradient
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.gradients.common import number_like, reduce_to, sum_to


@register_gradient("Mul")
def _mul(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to(x, y, grad * math_ops.conj(y), math_ops.conj(x) * grad)


@register_gradient("MulNoNan")
def _mul_no_nan(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to(x, y, math_ops.multiply_no_nan(grad, y), math_ops.multiply_no_nan(x, grad))


@register_gradient("Div", "RealDiv")
def _div(op: Operation, grad: Tensor) -> Any:
    x, y = (math_ops.conj(t) for t in op.inputs)
    divide = math_ops.realdiv
    return reduce_to(op.inputs[0], op.inputs[1], divide(grad, y), grad * divide(divide(-x, y), y))


@register_gradient("DivNoNan")
def _div_no_nan(op: Operation, grad: Tensor) -> Any:
    x, y = (math_ops.conj(t) for t in op.inputs)
    divide = math_ops.div_no_nan
    return reduce_to(op.inputs[0], op.inputs[1], divide(grad, y), grad * divide(divide(-x, y), y))


@register_gradient("FloorMod")
def _floor_mod(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to(x, y, grad, grad * -math_ops.floor_div(x, y))


@register_gradient("Pow")
def _pow(op: Operation, grad: Tensor) -> Any:
    x, y, z = op.inputs[0], op.inputs[1], op.outputs[0]
    cx, cy, cz = math_ops.conj(x), math_ops.conj(y), math_ops.conj(z)
    exponent = constant_value(y)
    gx = grad * cy * math_ops.pow(cx, cy - number_like(1, y))
    if exponent is not None and y._value is None:
        # What is known to be constant in a graph needs no gradient of its own.
        return [reduce_to(x, y, gx, None)[0], None]
    mask = math_ops.not_equal(cx, number_like(0, x)) if x.dtype.is_complex else math_ops.greater(cx, number_like(0, x))
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
    return _extremum(op, grad, math_ops.greater_equal(op.inputs[0], op.inputs[1]))


@register_gradient("Minimum")
def _minimum(op: Operation, grad: Tensor) -> Any:
    return _extremum(op, grad, math_ops.less_equal(op.inputs[0], op.inputs[1]))


@register_gradient("SquaredDifference")
def _squared_difference(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    gx = number_like(2, grad) * grad * (x - y)
    return reduce_to(x, y, gx, -gx)


@register_gradient("Atan2")
def _atan2(op: Operation, grad: Tensor) -> Any:
    y, x = op.inputs
    inverse = grad / (math_ops.square(x) + math_ops.square(y))
    return reduce_to(y, x, x * inverse, -y * inverse)


@register_gradient("Xlogy")
def _xlogy(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    some = math_ops.cast(math_ops.not_equal(x, number_like(0, x)), x.dtype)
    return reduce_to(x, y, math_ops.xlogy(some, y) * grad, math_ops.xdivy(x, y) * grad)


@register_gradient("Xlog1py")
def _xlog1py(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    some = math_ops.cast(math_ops.not_equal(x, number_like(0, x)), x.dtype)
    return reduce_to(x, y, math_ops.xlog1py(some, y) * grad, math_ops.xdivy(x, y + number_like(1, y)) * grad)


@register_gradient("Xdivy")
def _xdivy(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    some = math_ops.cast(math_ops.not_equal(x, number_like(0, x)), x.dtype)
    return reduce_to(x, y, math_ops.xdivy(some, y) * grad, math_ops.xdivy(-x, math_ops.square(y)) * grad)


@register_gradient("NextAfter")
def _next_after(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    return reduce_to(x, y, array_ops.ones_like(x) * grad, array_ops.zeros_like(y) * grad)


@register_gradient("Igamma")
def _igamma(op: Operation, grad: Tensor) -> Any:
    a, x = op.inputs
    by_a = apply_op("IgammaGradA", a=a, x=x)
    by_x = math_ops.exp(-x + (a - number_like(1, a)) * math_ops.log(x) - math_ops.lgamma(a))
    return reduce_to(a, x, by_a * grad, by_x * grad)


@register_gradient("Igammac")
def _igammac(op: Operation, grad: Tensor) -> Any:
    return [-g for g in _igamma(op, grad)]


@register_gradient("Betainc")
def _betainc(op: Operation, grad: Tensor) -> Any:
    a, b, x = op.inputs
    log_beta = math_ops.lgamma(a) + math_ops.lgamma(b) - math_ops.lgamma(a + b)
    one = number_like(1, x)
    partial = math_ops.exp((b - one) * math_ops.log1p(-x) + math_ops.xlogy(a - one, x) - log_beta)
    shape = apply_op("Shape", input=x)
    _, axes = apply_op_outputs("BroadcastGradientArgs", s0=apply_op("Shape", input=a), s1=shape)
    return [None, None, sum_to(partial * grad, axes, shape)]


@register_gradient("Zeta")
def _zeta(op: Operation, grad: Tensor) -> Any:
    x, q = op.inputs
    partial = -x * math_ops.zeta(x + number_like(1, x), q)
    return [None, reduce_to(x, q, None, partial * grad)[1]]


@register_gradient("Polygamma")
def _polygamma(op: Operation, grad: Tensor) -> Any:
    n, x = op.inputs
    partial = math_ops.polygamma(n + number_like(1, n), x)
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
