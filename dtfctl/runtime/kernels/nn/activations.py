"""Activation functions and their gradients (TensorFlow's relu_op, softplus_op, softsign_op)."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.nn.common import low_in_float32, shape_text
from dtfctl.runtime.kernels.promises import LIKE_FIRST
from dtfctl.runtime.kernels.registry import CPU_GPU, FLOATS, REALS, Kernel, KernelBuild, register_kernel

_finfo: Any = ml_dtypes.finfo
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123


def _binary(k: KernelBuild, function: Kernel) -> Kernel:
    """Make a gradient kernel, whose two inputs must be of one shape."""
    op = k.node.op

    def kernel(a: Any, b: Any) -> Any:
        if a.shape != b.shape:
            raise InvalidArgumentError(
                f"Inputs to operation {k.node.name} of type {op} must have the same size and shape.  "
                f"Input 0: {shape_text(a.shape)} != input 1: {shape_text(b.shape)}"
            )
        return function(a, b)

    return kernel


@register_kernel("Relu", devices=CPU_GPU, promises=LIKE_FIRST, T=(*REALS, dtypes.qint8))
def relu(k: KernelBuild) -> Kernel:
    maximum, zero = k.xp.maximum, k.dtype("T").np.type(0)
    return lambda x: maximum(x, zero)


@register_kernel("ReluGrad", devices=CPU_GPU, promises=LIKE_FIRST, T=REALS)
def relu_grad(k: KernelBuild) -> Kernel:
    return _binary(k, lambda g, x: g * (x > 0))


@register_kernel("Relu6", devices=CPU_GPU, promises=LIKE_FIRST, T=REALS)
def relu6(k: KernelBuild) -> Kernel:
    xp, zero, six = k.xp, k.dtype("T").np.type(0), k.dtype("T").np.type(6)
    return lambda x: xp.minimum(xp.maximum(x, zero), six)


@register_kernel("Relu6Grad", devices=CPU_GPU, promises=LIKE_FIRST, T=REALS)
def relu6_grad(k: KernelBuild) -> Kernel:
    return _binary(k, lambda g, x: g * ((x > 0) & (x < 6)))


@register_kernel("Elu", devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def elu(k: KernelBuild) -> Kernel:
    xp = k.xp
    return low_in_float32(k.dtype("T").np, lambda x: xp.where(x < 0, xp.expm1(xp.minimum(x, 0)), x))


@register_kernel("EluGrad", devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def elu_grad(k: KernelBuild) -> Kernel:
    xp = k.xp
    return _binary(k, low_in_float32(k.dtype("T").np, lambda g, y: xp.where(y < 0, (y + 1) * g, g)))


@register_kernel("Selu", devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def selu(k: KernelBuild) -> Kernel:
    xp = k.xp
    return low_in_float32(
        k.dtype("T").np,
        lambda x: xp.where(x < 0, xp.expm1(xp.minimum(x, 0)) * _SELU_SCALE_ALPHA, x * _SELU_SCALE),
    )


@register_kernel("SeluGrad", devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def selu_grad(k: KernelBuild) -> Kernel:
    xp = k.xp
    return _binary(
        k,
        low_in_float32(k.dtype("T").np, lambda g, y: xp.where(y < 0, g * (y + _SELU_SCALE_ALPHA), g * _SELU_SCALE)),
    )


@register_kernel("LeakyRelu", devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def leaky_relu(k: KernelBuild) -> Kernel:
    xp, alpha = k.xp, k.dtype("T").np.type(k.attr("alpha", 0.2))
    if xp is np and 0 < alpha <= 1:
        # Which of the two is larger is found without a branch.
        return lambda x: np.maximum(x, x * alpha)
    return lambda x: xp.where(x > 0, x, x * alpha)


@register_kernel("LeakyReluGrad", devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def leaky_relu_grad(k: KernelBuild) -> Kernel:
    xp, alpha = k.xp, k.dtype("T").np.type(k.attr("alpha", 0.2))
    return _binary(k, lambda g, x: xp.where(x > 0, g, g * alpha))


@register_kernel("Softplus", devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def softplus(k: KernelBuild) -> Kernel:
    xp, dtype = k.xp, k.dtype("T").np
    # Beyond this log(1 + exp(x)) is x, or exp(x), in the type's precision.
    threshold = math.log(float(dtypes.as_dtype(dtype).np.type(_epsilon(dtype)))) + 2

    def function(x: Any) -> Any:
        e = xp.exp(xp.minimum(x, -threshold))
        return xp.where(x > -threshold, x, xp.where(x < threshold, e, xp.log1p(e)))

    return low_in_float32(dtype, function)


def _epsilon(dtype: np.dtype[Any]) -> float:
    """Eigen's, which for half floats is an eighth of the true one."""
    return 2.0**-13 if dtype == np.float16 else float(_finfo(dtype).eps)


@register_kernel("SoftplusGrad", devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def softplus_grad(k: KernelBuild) -> Kernel:
    xp = k.xp

    def function(g: Any, x: Any) -> Any:
        with np.errstate(over="ignore"):
            return g / (xp.exp(-x) + 1)

    return _binary(k, low_in_float32(k.dtype("T").np, function))


@register_kernel("Softsign", devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def softsign(k: KernelBuild) -> Kernel:
    xp = k.xp
    return low_in_float32(k.dtype("T").np, lambda x: x / (xp.abs(x) + 1))


@register_kernel("SoftsignGrad", devices=CPU_GPU, promises=LIKE_FIRST, T=FLOATS)
def softsign_grad(k: KernelBuild) -> Kernel:
    xp = k.xp
    return _binary(k, low_in_float32(k.dtype("T").np, lambda g, x: g / xp.square(xp.abs(x) + 1)))
