"""Arithmetic of two broadcast arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import FailedPreconditionError, InternalError, InvalidArgumentError
from dtfctl.runtime.kernels.admission import MOST_UNSEEN, admit_broadcast
from dtfctl.runtime.kernels.array.common import in_float32, text
from dtfctl.runtime.kernels.promises import FIRST, OF_SHAPES, Promises
from dtfctl.runtime.kernels.registry import (
    COMPLEX,
    CPU,
    CPU_GPU,
    FLOATS,
    INTS,
    NUMBERS,
    REALS,
    Kernel,
    KernelBuild,
    register_kernel,
)

_LOW = (dtypes.float16, dtypes.bfloat16)


def checked(function: Callable[[Any, Any], Any], item_bytes: int | None = None) -> Kernel:
    """Wrap a function: numpy's complaint about shapes becomes TensorFlow's, and what grows too large is refused.

    Args:
        item_bytes: of the result, where they are not its inputs'.
    """

    def kernel(x: Any, y: Any) -> Any:
        if x.size * y.size > MOST_UNSEEN and x.shape != y.shape:
            admit_broadcast(x, y, item_bytes=item_bytes)
        try:
            return function(x, y)
        except ValueError:
            raise InvalidArgumentError(f"Incompatible shapes: {text(x.shape)} vs. {text(y.shape)}") from None

    kernel.__wrapped__ = function  # type: ignore[attr-defined]
    return kernel


# For floats minus zero is what adds nothing, as -0 + 0 is 0.
_SUM = replace(OF_SHAPES, neutral=(-0.0, -0.0))
_DIFFERENCE = replace(OF_SHAPES, neutral=(None, 0.0))
_PRODUCT = replace(OF_SHAPES, neutral=(1.0, 1.0))
_BY_ONE = replace(OF_SHAPES, neutral=(None, 1.0))


def _ufunc(op: str, name: str, types: tuple[dtypes.DType, ...] | None = None, promises: Promises = OF_SHAPES) -> None:
    allowed: dict[str, Any] = {} if types is None else {"T": types}

    @register_kernel(op, devices=CPU_GPU, alike=True, promises=promises, **allowed)
    def factory(k: KernelBuild) -> Kernel:
        return checked(getattr(k.xp, name))


_ufunc("AddV2", "add", NUMBERS, _SUM)
_ufunc("Add", "add", NUMBERS, _SUM)
_ufunc("Sub", "subtract", NUMBERS, _DIFFERENCE)
_ufunc("Mul", "multiply", NUMBERS, _PRODUCT)
_ufunc("RealDiv", "true_divide", FLOATS + COMPLEX, _BY_ONE)
_ufunc("Atan2", "arctan2", FLOATS)
_ufunc("Maximum", "maximum", REALS)
_ufunc("Minimum", "minimum", REALS)
_ufunc("NextAfter", "nextafter")
_ufunc("BitwiseAnd", "bitwise_and", INTS)
_ufunc("BitwiseOr", "bitwise_or", INTS)
_ufunc("BitwiseXor", "bitwise_xor", INTS)
_ufunc("LogicalAnd", "logical_and")
_ufunc("LogicalOr", "logical_or")


@register_kernel("Add", T=(dtypes.string,))
def _add_strings(k: KernelBuild) -> Kernel:
    def add(x: Any, y: Any) -> Any:
        out = np.empty(np.broadcast_shapes(x.shape, y.shape), object)
        out[...] = np.add(x, y)
        return out

    return checked(add)


def _nonzero(x: Any, y: Any) -> None:
    """Raise InvalidArgumentError when something is divided by zero (nothing is when the result is empty)."""
    if not np.all(y) and np.broadcast(x, y).size:
        raise InvalidArgumentError("Integer division by zero")


def truncated_quotient(x: Any, y: Any) -> Any:
    """C's integer division."""
    if np.asarray(y).dtype.kind == "u":
        return x // y
    return (x - np.fmod(x, y)) // y


def _real_quotient_of_ints(x: Any, y: Any) -> Any:
    _nonzero(x, y)
    return truncated_quotient(x, y)


def _floor_quotient_of_ints(x: Any, y: Any) -> Any:
    _nonzero(x, y)
    return np.floor_divide(x, y)


def _fmod_of_ints(x: Any, y: Any) -> Any:
    _nonzero(x, y)
    return np.fmod(x, y)


def _unchecked_by_tensorflow(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """TruncateDiv and TruncateMod answer a zero divisor with an internal error."""

    def kernel(x: Any, y: Any) -> Any:
        if not np.all(y) and np.broadcast(x, y).size:
            raise InternalError("Unexpected error in binary operator (only integer div and mod should have errors)")
        return function(x, y)

    return kernel


def _mod_of_ints(x: Any, y: Any) -> Any:
    _nonzero(x, y)
    return np.mod(x, y)


@register_kernel(("Div", "TruncateDiv", "RealDiv"), promises=_BY_ONE, T=INTS)
def _integer_division(k: KernelBuild) -> Kernel:
    if k.node.op == "TruncateDiv":
        return checked(_unchecked_by_tensorflow(truncated_quotient))
    return checked(_real_quotient_of_ints)


@register_kernel("Div", devices=CPU_GPU, promises=_BY_ONE, T=FLOATS + COMPLEX)
def _division(k: KernelBuild) -> Kernel:
    return checked(k.xp.true_divide)


@register_kernel("TruncateDiv", devices=CPU_GPU, promises=OF_SHAPES, T=FLOATS)
def _truncate_div(k: KernelBuild) -> Kernel:
    xp = k.xp
    return checked(lambda x, y: xp.trunc(x / y))


@register_kernel("FloorDiv", promises=OF_SHAPES, T=INTS)
def _floor_div_ints(k: KernelBuild) -> Kernel:
    return checked(_floor_quotient_of_ints)


@register_kernel("FloorDiv", devices=CPU_GPU, promises=OF_SHAPES, T=FLOATS)
def _floor_div(k: KernelBuild) -> Kernel:
    xp = k.xp
    if k.dtype("T") in _LOW:
        return checked(in_float32(lambda x, y: xp.floor(x / y)))
    return checked(lambda x, y: xp.floor(x / y))


@register_kernel("FloorMod", promises=OF_SHAPES, T=INTS)
def _floor_mod_ints(k: KernelBuild) -> Kernel:
    return checked(_mod_of_ints)


@register_kernel("FloorMod", devices=CPU_GPU, promises=OF_SHAPES, T=FLOATS)
def _floor_mod(k: KernelBuild) -> Kernel:
    return checked(in_float32(k.xp.mod) if k.dtype("T") in _LOW else k.xp.mod)


@register_kernel(("Mod", "TruncateMod"), promises=OF_SHAPES, T=INTS)
def _truncate_mod_ints(k: KernelBuild) -> Kernel:
    if k.node.op == "TruncateMod":
        return checked(_unchecked_by_tensorflow(np.fmod))
    return checked(_fmod_of_ints)


@register_kernel(("Mod", "TruncateMod"), devices=CPU_GPU, promises=OF_SHAPES, T=FLOATS)
def _truncate_mod(k: KernelBuild) -> Kernel:
    return checked(in_float32(k.xp.fmod) if k.dtype("T") in _LOW else k.xp.fmod)


@register_kernel("Pow", devices=CPU, promises=_BY_ONE, T=INTS)
def _integer_power(k: KernelBuild) -> Kernel:
    def power(x: Any, y: Any) -> Any:
        if (y < 0).any():
            raise InvalidArgumentError("Integers to negative integer powers are not allowed")
        return np.power(x, y)

    return checked(power)


@register_kernel("Pow", devices=CPU_GPU, promises=_BY_ONE, T=FLOATS + COMPLEX)
def _power(k: KernelBuild) -> Kernel:
    if k.xp is not np:
        return checked(in_float32(k.xp.power) if k.dtype("T") in _LOW else k.xp.power)
    return checked(in_float32(power) if k.dtype("T") in _LOW else power)


def power(x: Any, y: Any, out: Any = None) -> Any:
    """Raise floating or complex numbers to powers; squares and cubes are products, as TensorFlow's optimizer has it."""
    if y.ndim == 0 and x.dtype.kind == "f":
        if y == 2:
            return np.multiply(x, x, out)
        if y == 3:
            # Once for all elements, and again in place.
            out = np.multiply(x, x, out)
            return np.multiply(out, x, out if isinstance(out, np.ndarray) else None)
    return np.power(x, y, out)


@register_kernel("SquaredDifference", devices=CPU_GPU, promises=OF_SHAPES)
def _squared_difference(k: KernelBuild) -> Kernel:
    def real(x: Any, y: Any) -> Any:
        d = x - y
        return d * d

    def complex_(x: Any, y: Any) -> Any:
        d = x - y
        return d * d.conj()

    if k.dtype("T") in _LOW:
        return checked(in_float32(real))
    return checked(complex_ if k.dtype("T").is_complex else real)


def _zero_where(op: str, which: int, of: Callable[[Any, Any, Any], Any]) -> None:
    """Register an op whose result is 0 wherever argument `which` is 0, whatever the other is."""

    @register_kernel(op, devices=CPU_GPU, promises=OF_SHAPES)
    def factory(k: KernelBuild) -> Kernel:
        xp, low = k.xp, k.dtype("T") in _LOW

        def function(x: Any, y: Any) -> Any:
            result = of(xp, x, y)
            return xp.where((x, y)[which] == 0, result.dtype.type(0), result)

        return checked(in_float32(function) if low else function)


_zero_where("DivNoNan", 1, lambda xp, x, y: x / y)
_zero_where("MulNoNan", 1, lambda xp, x, y: x * y)
_zero_where("Xdivy", 0, lambda xp, x, y: x / y)
_zero_where("Xlogy", 0, lambda xp, x, y: x * xp.log(y))
_zero_where("Xlog1py", 0, lambda xp, x, y: x * xp.log1p(y))


@register_kernel(("LeftShift", "RightShift"), promises=OF_SHAPES, T=INTS)
def _shift(k: KernelBuild) -> Kernel:
    """Shift counts outside [0, bits) are clamped to it, as TensorFlow does for want of a defined answer."""
    dtype = k.dtype("T").np
    most = dtype.type(dtype.itemsize * 8 - 1)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    if k.node.op == "RightShift":
        return checked(lambda x, y: np.right_shift(x, np.clip(y, dtype.type(0), most)))
    return checked(
        lambda x, y: np.left_shift(x.view(unsigned), np.clip(y, dtype.type(0), most).view(unsigned)).view(dtype)
    )


# The sum of one tensor is that tensor.
_SUM = Promises(lets_go=lambda node: len(node.inputs) > 1, shape_from=FIRST)


@register_kernel(("AddN", "AccumulateNV2"), devices=CPU_GPU, promises=_SUM, T=NUMBERS)
def _add_n(k: KernelBuild) -> Kernel:
    low = k.dtype("T") in _LOW

    def kernel(*xs: Any) -> Any:
        first = xs[0]
        shape = first.shape
        for i, x in enumerate(xs):
            if x.shape != shape:
                raise InvalidArgumentError(
                    f"Inputs to operation {k.node.name} of type {k.node.op} must have the same size and shape.  "
                    f"Input 0: {text(shape)} != input {i}: {text(x.shape)}"
                )
        if len(xs) == 1:
            return first
        if low:
            return sum((x.astype(np.float32) for x in xs[1:]), first.astype(np.float32)).astype(first.dtype)
        total = first + xs[1]
        if total.ndim == 0:
            for x in xs[2:]:
                total = total + x
            return total
        for x in xs[2:]:
            total += x
        return total

    return kernel


@register_kernel("AddN", T=(dtypes.variant,))
def _add_n_variants(k: KernelBuild) -> Kernel:
    """Variants add through their own `add_variant(other)` (TensorLists do)."""

    def kernel(*xs: Any) -> Any:
        total = xs[0]
        for x in xs[1:]:
            out = np.empty(total.shape, object)
            for position in np.ndindex(total.shape):
                add = getattr(total[position], "add_variant", None)
                if add is None:
                    raise InvalidArgumentError("AddN of variants that cannot be added")
                out[position] = add(x[position])
            total = out
        return total

    return kernel


@register_kernel("Cross")
def _cross(k: KernelBuild) -> Kernel:
    def kernel(a: Any, b: Any) -> Any:
        if a.shape != b.shape:
            raise InvalidArgumentError(f"Both inputs must be of same shape: {text(a.shape)} vs. {text(b.shape)}")
        if a.ndim < 1:
            raise InvalidArgumentError("Input must be at least 1D")
        if a.shape[-1] != 3:
            raise FailedPreconditionError("Cross-products are only defined for 3-element vectors.")
        x, y, z = a[..., 0], a[..., 1], a[..., 2]
        u, v, w = b[..., 0], b[..., 1], b[..., 2]
        return np.stack([y * w - z * v, z * u - x * w, x * v - y * u], axis=-1)

    return kernel
