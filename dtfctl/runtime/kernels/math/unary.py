"""Ops of one argument that work element by element."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.runtime.kernels.array.common import in_float32
from dtfctl.runtime.kernels.promises import LIKE_FIRST, OF_SHAPES, Promises
from dtfctl.runtime.kernels.registry import (
    COMPLEX,
    CPU_GPU,
    FLOATS,
    INTS,
    NUMBERS,
    SIGNED,
    Kernel,
    KernelBuild,
    register_kernel,
)

_FLOAT_COMPLEX = FLOATS + COMPLEX
_SIGNED_NUMBERS = SIGNED + _FLOAT_COMPLEX


_UNDOES_ITSELF = replace(LIKE_FIRST, undoes_itself=True)


def _ufunc(op: str, name: str, types: tuple[dtypes.DType, ...], promises: Promises = LIKE_FIRST) -> None:
    """Register an op that is one numpy (and cupy) ufunc."""

    @register_kernel(op, devices=CPU_GPU, alike=True, promises=promises, T=types)
    def factory(k: KernelBuild) -> Kernel:
        function: Kernel = getattr(k.xp, name)
        return function


for _op, _name in {
    "Acos": "arccos",
    "Acosh": "arccosh",
    "Asin": "arcsin",
    "Asinh": "arcsinh",
    "Atan": "arctan",
    "Atanh": "arctanh",
    "Cos": "cos",
    "Cosh": "cosh",
    "Exp": "exp",
    "Expm1": "expm1",
    "Log": "log",
    "Log1p": "log1p",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}.items():
    _ufunc(_op, _name, _FLOAT_COMPLEX)
_ufunc("Square", "square", NUMBERS)
_ufunc("Neg", "negative", _SIGNED_NUMBERS, _UNDOES_ITSELF)
_ufunc("Abs", "absolute", FLOATS + SIGNED)
_ufunc("Sign", "sign", _SIGNED_NUMBERS)
_ufunc("Ceil", "ceil", FLOATS)
_ufunc("Floor", "floor", FLOATS)
_ufunc("Rint", "rint", FLOATS)
_ufunc("IsFinite", "isfinite", FLOATS)
_ufunc("IsInf", "isinf", FLOATS)
_ufunc("IsNan", "isnan", FLOATS)
_ufunc("Invert", "invert", INTS, _UNDOES_ITSELF)


@register_kernel("LogicalNot", devices=CPU_GPU, promises=_UNDOES_ITSELF)
def _logical_not(k: KernelBuild) -> Kernel:
    function: Kernel = k.xp.logical_not
    return function


@register_kernel("Round", devices=CPU_GPU, T=_SIGNED_NUMBERS)
def _round(k: KernelBuild) -> Kernel:
    """Halves go to the even neighbour."""
    if k.dtype("T").is_integer:
        return lambda x: x
    function: Kernel = k.xp.rint
    return function


@register_kernel(("Reciprocal", "Inv"), devices=CPU_GPU, promises=LIKE_FIRST, T=_SIGNED_NUMBERS)
def _reciprocal(k: KernelBuild) -> Kernel:
    one = k.dtype("T").np.type(1)
    if k.dtype("T").is_integer:
        return lambda x: k.xp.trunc(1.0 / x).astype(x.dtype)
    return lambda x: one / x


@register_kernel("Rsqrt", devices=CPU_GPU, promises=LIKE_FIRST, T=_FLOAT_COMPLEX)
def _rsqrt(k: KernelBuild) -> Kernel:
    one, sqrt = k.dtype("T").np.type(1), k.xp.sqrt
    if k.dtype("T") in (dtypes.float16, dtypes.bfloat16):
        return in_float32(lambda x: np.float32(1) / sqrt(x))
    return lambda x: one / sqrt(x)


@register_kernel("Sigmoid", devices=CPU_GPU, promises=LIKE_FIRST, T=_FLOAT_COMPLEX)
def _sigmoid(k: KernelBuild) -> Kernel:
    exp = k.xp.exp
    if k.dtype("T") in (dtypes.float16, dtypes.bfloat16):
        return in_float32(lambda x: np.float32(1) / (np.float32(1) + exp(-x)))
    one = k.dtype("T").np.type(1)
    return lambda x: one / (one + exp(-x))


def _gradient(op: str, of: Callable[[Any, Any], Any], conjugate: bool = True, pole: bool = False) -> None:
    """Register a gradient in terms of the op's output y and the incoming dy.

    Complex y enters conjugated, except where TensorFlow leaves that to the front end. With a pole, where y or its
    inverse is infinite, what does not come in does not go out: 0 times infinity is 0 there.
    """

    @register_kernel(op, devices=CPU_GPU, promises=LIKE_FIRST, T=_FLOAT_COMPLEX)
    def factory(k: KernelBuild) -> Kernel:
        dtype = k.dtype("T")
        function = in_float32(of) if dtype in (dtypes.float16, dtypes.bfloat16) else of
        conjugated = dtype.is_complex and conjugate
        where, zero = k.xp.where, dtype.np.type(0)

        def kernel(y: Any, dy: Any) -> Any:
            if y.shape != dy.shape:
                if y.size != dy.size:
                    raise InvalidArgumentError(
                        f"The two arguments to a cwise op must have same number of elements, got {y.size} and {dy.size}"
                    )
                dy = dy.reshape(y.shape)
            result = function(y.conj() if conjugated else y, dy)
            return where(dy == zero, zero, result) if pole else result

        return kernel


def _typed(value: float, like: Any) -> Any:
    return like.dtype.type(value)


_gradient("TanhGrad", lambda y, dy: dy * (_typed(1, y) - y * y), conjugate=False)
_gradient("SigmoidGrad", lambda y, dy: dy * y * (_typed(1, y) - y), conjugate=False)
_gradient("SqrtGrad", lambda y, dy: _typed(0.5, y) * dy / y, pole=True)
_gradient("RsqrtGrad", lambda y, dy: _typed(-0.5, y) * dy * y * y * y, pole=True)
_gradient("ReciprocalGrad", lambda y, dy: -dy * y * y, pole=True)
_gradient("InvGrad", lambda y, dy: -dy * y * y, pole=True)


@register_kernel("PopulationCount", promises=LIKE_FIRST, T=INTS)
def _population_count(k: KernelBuild) -> Kernel:
    unsigned = np.dtype(f"u{k.dtype('T').np.itemsize}")
    return lambda x: np.bitwise_count(x.view(unsigned)).astype(np.uint8)


@register_kernel("Complex", devices=CPU_GPU, promises=OF_SHAPES)
def _complex(k: KernelBuild) -> Kernel:
    out = k.dtype("Tout").np

    def kernel(real: Any, imag: Any) -> Any:
        shape = k.xp.broadcast_shapes(real.shape, imag.shape)
        z = k.xp.empty(shape, out)
        z.real, z.imag = real, imag
        return z

    from dtfctl.runtime.kernels.math.binary import checked

    return checked(kernel, item_bytes=np.dtype(out).itemsize)


@register_kernel("Real", devices=CPU_GPU, promises=LIKE_FIRST)
def _real(k: KernelBuild) -> Kernel:
    out = k.dtype("Tout").np
    return lambda z: z.real.astype(out)


@register_kernel("Imag", devices=CPU_GPU, promises=LIKE_FIRST)
def _imag(k: KernelBuild) -> Kernel:
    out = k.dtype("Tout").np
    return lambda z: z.imag.astype(out)


@register_kernel("ComplexAbs", devices=CPU_GPU, promises=LIKE_FIRST)
def _complex_abs(k: KernelBuild) -> Kernel:
    out = k.dtype("Tout").np
    return lambda z: k.xp.absolute(z).astype(out)


@register_kernel("Angle", devices=CPU_GPU, promises=LIKE_FIRST)
def _angle(k: KernelBuild) -> Kernel:
    out = k.dtype("Tout").np
    return lambda z: k.xp.arctan2(z.imag, z.real).astype(out)


@register_kernel("Conj", devices=CPU_GPU, promises=_UNDOES_ITSELF, T=COMPLEX)
def _conj(k: KernelBuild) -> Kernel:
    function: Kernel = k.xp.conjugate
    return function


@register_kernel("Conj", devices=CPU_GPU, T=(dtypes.variant,))
def _conj_of_variants(k: KernelBuild) -> Kernel:
    return _conjugate_variants


def _conjugate_variants(x: Any) -> Any:
    items = x.reshape(-1).tolist()
    for item in items:
        if not hasattr(item, "conjugate_variant"):
            raise InvalidArgumentError(f"No unary variant op for conjugation of a {type(item).__name__}")
    return object_array([item.conjugate_variant() for item in items], x.shape)
