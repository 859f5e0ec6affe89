"""Quantization: to and from fixed-point types, and its simulation in floats (QuantizeAndDequantize*, FakeQuant*)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.kernels.array.common import is_low_precision, scalar, text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_F = np.float32


def round_away(x: Any) -> Any:
    """C's round: halves go away from zero."""
    return np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)


def quantized_to_float(x: Any, low: float, high: float) -> Any:
    """MIN_FIRST's decoding, in float64."""
    info = np.iinfo(x.dtype)
    if low == high:
        return np.full(x.shape, low, _F)
    steps = 1 << (x.dtype.itemsize * 8)
    scale = float(_F(high) - _F(low)) * (steps / (steps - 1.0)) / steps
    first = float(round_away(_F(low) / _F(scale))) * float(_F(scale))
    return (first + (x.astype(np.float64) - info.min) * scale).astype(_F)


def float_to_quantized(x: Any, low: float, high: float, dtype: np.dtype[Any]) -> Any:
    """MIN_FIRST's encoding, saturating."""
    info = np.iinfo(dtype)
    if low == high:
        return np.full(x.shape, info.min, dtype)
    steps = 1 << (dtype.itemsize * 8)
    scale = steps / (float(_F(high) - _F(low)) * (steps / (steps - 1.0)))
    q = round_away(x.astype(np.float64) * scale) - float(round_away(np.float64(low) * scale)) + info.min
    return np.clip(q, info.min, info.max).astype(dtype)


def _half_range(dtype: np.dtype[Any]) -> Any:
    info = np.iinfo(dtype)
    return _F(0) if info.min == 0 else _F((float(info.max) - float(info.min) + 1) / 2)


@register_kernel("QuantizeV2")
def _quantize(k: KernelBuild) -> Kernel:
    mode, rounding = k.text_attr("mode"), k.text_attr("round_mode")
    narrow, axis = bool(k.attr("narrow_range")), int(k.attr("axis"))
    least, dtype = _F(k.attr("ensure_minimum_range")), k.dtype("T").np
    info = np.iinfo(dtype)
    if rounding == "HALF_TO_EVEN" and mode != "SCALED":
        raise InvalidArgumentError(
            f"Round mode 'HALF_TO_EVEN' only supported for mode 'SCALED', but mode is '{mode}'.", k.node.name
        )

    def kernel(x: Any, min_range: Any, max_range: Any) -> Any:
        slices = 1
        if axis > -1:
            if x.ndim <= axis:
                raise InvalidArgumentError(
                    "Axis is on a zero-based index, so its value must always be less than number of input's dims, but "
                    f"given axis value was {axis} and input's dims was {x.ndim}"
                )
            slices = x.shape[axis]
            for name, t in (("min_range", min_range), ("max_range", max_range)):
                if t.shape != (slices,):
                    raise InvalidArgumentError(
                        f"If axis is specified, {name} must be a 1-D tensor whose size matches the axis dimension of "
                        f"the input and output tensors, but its shape is {text(t.shape)}"
                    )
        else:
            for name, t in (("min_range", min_range), ("max_range", max_range)):
                if t.size != 1:
                    raise InvalidArgumentError(
                        f"If axis is not specified, {name} must contain a single float element, but it contains "
                        f"{t.size} elements"
                    )
        if slices > 1 and mode == "MIN_FIRST":
            raise UnimplementedError("MIN_FIRST mode is not implemented for Quantize with axis != -1.")
        first, last = min_range.reshape(-1), max_range.reshape(-1)
        if np.any(last < first):
            raise InvalidArgumentError("input_max_range must be larger than input_min_range.")
        low = np.minimum(_F(0), first)
        epsilon = np.maximum(_F(1), np.maximum(np.abs(first), np.abs(last))) * least
        high = np.maximum(_F(0), np.maximum(last, low + epsilon))
        out_shape = min_range.shape if slices > 1 else ()
        if mode == "MIN_FIRST":
            out = float_to_quantized(x, float(low[0]), float(high[0]), dtype)
            return out, low.reshape(()), high.reshape(())
        shape = [1] * x.ndim
        if axis > -1:
            shape[axis] = slices
        if mode == "MIN_COMBINED":
            factor = ((float(info.max) - float(info.min)) / (high - low)).astype(_F).reshape(shape)
            moved = (np.maximum(np.minimum(x, high.reshape(shape)), low.reshape(shape)) - low.reshape(shape)) * factor
            q = round_away(moved - _half_range(dtype)) if info.min else np.floor(moved + _F(0.5))
        else:
            bottom = info.min + int(narrow)
            most = np.finfo(_F).max
            from_min = np.where(_F(bottom) * low > 0, _F(bottom) / low, most)
            from_max = np.where(_F(info.max) * high > 0, _F(info.max) / high, most)
            factor = np.minimum(from_min, from_max).astype(_F)
            low, high = (_F(bottom) / factor).astype(_F), (_F(info.max) / factor).astype(_F)
            scaled = np.maximum(np.minimum(x, high.reshape(shape)), low.reshape(shape)) * factor.reshape(shape)
            q = np.rint(scaled) if rounding == "HALF_TO_EVEN" else round_away(scaled)
        return (
            np.clip(q.astype(np.float64), info.min, info.max).astype(dtype),
            low.reshape(out_shape),
            high.reshape(out_shape),
        )

    return kernel


@register_kernel("Dequantize")
def _dequantize(k: KernelBuild) -> Kernel:
    mode, narrow, axis = k.text_attr("mode"), bool(k.attr("narrow_range")), int(k.attr("axis"))
    out, dtype = k.dtype("dtype").np, k.dtype("T").np
    info = np.iinfo(dtype)
    if is_low_precision(out) and mode != "MIN_COMBINED":
        raise InvalidArgumentError(
            f"When output type is bfloat16, Mode string must be 'MIN_COMBINED', is '{mode}'", k.node.name
        )

    def kernel(x: Any, min_range: Any, max_range: Any) -> Any:
        if axis >= x.ndim and axis > -1:
            raise InvalidArgumentError(f"Axis must be less than input dimension({x.ndim}), got {axis}")
        slices = x.shape[axis] if axis > -1 else 1
        for name, t in (("input_min_tensor", min_range), ("input_max_tensor", max_range)):
            if t.size != slices:
                raise InvalidArgumentError(
                    f"{name} must have as many elements as input on the dequantization axis ({axis}), got {t.size}, "
                    f"expected {slices}"
                )
        if slices > 1 and mode == "MIN_FIRST":
            raise UnimplementedError("MIN_FIRST mode is not implemented for Dequantize with axis != -1.")
        if mode == "MIN_FIRST":
            return quantized_to_float(x, float(min_range.reshape(-1)[0]), float(max_range.reshape(-1)[0]))
        shape = [1] * x.ndim
        if axis > -1:
            shape[axis] = slices
        low, high = min_range.reshape(shape), max_range.reshape(shape)
        if mode == "MIN_COMBINED":
            factor = (high - low) / (_F(info.max) - _F(info.min))
            return ((x.astype(_F) + _half_range(dtype)) * factor + low).astype(out)
        if info.min == 0:
            factor = high / _F(info.max)
        else:
            factor = np.maximum(low / _F(info.min + int(narrow)), high / _F(info.max))
        return (x.astype(_F) * factor).astype(out)

    return kernel


# --- quantization simulated in floats ---


def _simulate(x: Any, low: Any, high: Any, *, signed: bool, bits: int, given: bool, narrow: bool, half_up: bool) -> Any:
    """Round x to the values a fixed-point type could hold; ranges broadcast against x and have its type."""
    top = (1 << (bits - 1)) - 1 if signed else (1 << bits) - 1
    bottom = (-(1 << (bits - 1)) + int(narrow)) if signed else 0
    kind = x.dtype.type
    most = np.finfo(x.dtype).max
    qmin, qmax = kind(bottom), kind(top)
    from_min = np.where(qmin * low > 0, qmin / low, most)
    from_max = np.where(qmax * high > 0, qmax / high, most)
    by_min = from_min < from_max
    inverse = np.where(by_min, low / qmin if bottom else high / qmax, high / qmax).astype(x.dtype)
    scale = np.where(by_min, from_min, from_max).astype(x.dtype)
    new_low = np.where(by_min, low, qmin * inverse).astype(x.dtype)
    new_high = np.where(by_min, qmax * inverse, high).astype(x.dtype)
    if given:
        x = np.maximum(np.minimum(x, new_high), new_low)
    scaled = x * scale
    return (np.floor(scaled + kind(0.5)) if half_up else np.rint(scaled)) * inverse


def _quantize_and_dequantize(k: KernelBuild) -> Kernel:
    signed, given = bool(k.attr("signed_input")), bool(k.attr("range_given"))
    narrow, axis = bool(k.attr("narrow_range", False)), int(k.attr("axis", -1))
    half_up = k.text_attr("round_mode", "HALF_TO_EVEN") == "HALF_UP"
    fixed_bits = k.attr("num_bits")
    v1 = k.node.op == "QuantizeAndDequantize"
    dtype = k.dtype("T").np

    def kernel(x: Any, input_min: Any = None, input_max: Any = None, num_bits: Any = None) -> Any:
        bits = fixed_bits if num_bits is None else scalar(num_bits, "num_bits")
        limit = 62 if signed else 63
        if not (2 if signed else 1) <= bits <= limit:
            raise InvalidArgumentError(f"num_bits is out of range: {bits} with signed_input_ {int(signed)}")
        if axis < -1:
            raise InvalidArgumentError("Axis should be -1 or 0 or a positive value less than the rank of the input")
        if axis >= x.ndim:
            raise InvalidArgumentError(
                f"Axis should be -1 or 0 or a positive value less than {x.ndim}but given axis value was {axis}"
            )
        if v1:
            input_min, input_max = (np.asarray(k.attr(f"input_{m}"), dtype) for m in ("min", "max"))
        work = x.astype(np.float32) if is_low_precision(dtype) else x
        shape = [1] * x.ndim
        if axis > -1:
            shape[axis] = x.shape[axis]
        if given:
            want = () if axis == -1 else (x.shape[axis],)
            for name, t in (("input_min", input_min), ("input_max", input_max)):
                if t.size != (want[0] if want else 1) or t.ndim > 1:
                    raise InvalidArgumentError(
                        f"Shape must be rank {len(want)} but is rank {t.ndim} for {name} {text(t.shape)}"
                    )
            if np.any(input_min > input_max):
                raise InvalidArgumentError(
                    f"Invalid range: input_min {float(input_min.reshape(-1)[0]):g} > input_max "
                    f"{float(input_max.reshape(-1)[0]):g}"
                )
            low, high = (t.astype(work.dtype).reshape(shape) for t in (input_min, input_max))
        elif x.size == 0:
            return x
        else:
            axes = tuple(i for i in range(x.ndim) if i != axis)
            low, high = work.min(axis=axes, keepdims=True), work.max(axis=axes, keepdims=True)
        result = _simulate(work, low, high, signed=signed, bits=bits, given=given, narrow=narrow, half_up=half_up)
        return result.astype(dtype, copy=False)

    return kernel


register_kernel(
    ("QuantizeAndDequantize", "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4")
)(_quantize_and_dequantize)


@register_kernel("QuantizeAndDequantizeV4Grad")
def _quantize_and_dequantize_grad(k: KernelBuild) -> Kernel:
    axis = int(k.attr("axis"))

    def kernel(grad: Any, x: Any, input_min: Any, input_max: Any) -> Any:
        if grad.shape != x.shape:
            raise InvalidArgumentError("gradient and input must be the same size")
        if axis >= x.ndim or axis < -1:
            raise InvalidArgumentError(f"Axis should be >= -1 and < {x.ndim}, got {axis}")
        shape = [1] * x.ndim
        if axis > -1:
            shape[axis] = x.shape[axis]
        want = () if axis == -1 else (x.shape[axis],)
        for name, t in (("input_min", input_min), ("input_max", input_max)):
            if t.shape != want:
                raise InvalidArgumentError(f"{name} must have shape {text(want)}, got {text(t.shape)}")
        low, high = input_min.reshape(shape), input_max.reshape(shape)
        inside = (x >= low) & (x <= high)
        zero = np.zeros(want, x.dtype)
        return grad * inside.astype(x.dtype), zero, zero

    return kernel


def _nudge(low: Any, high: Any, qmin: int, qmax: int) -> tuple[Any, Any, Any, Any]:
    """Ranges moved so that zero is representable: (low, high, scale, 1 / scale), float32."""
    a, b = _F(qmin), _F(qmax)
    scale = (high - low) / (b - a)
    inverse = (b - a) / (high - low)
    zero = a - low / scale
    nudged = np.where(zero < a, a, np.where(zero > b, b, round_away(np.asarray(zero, _F)))).astype(_F)
    return (a - nudged) * scale, (b - nudged) * scale, scale, inverse


def _fake_quant(x: Any, low: Any, high: Any, qmin: int, qmax: int) -> Any:
    first, last, scale, inverse = _nudge(low, high, qmin, qmax)
    zero = np.floor(-first * inverse + _F(0.5))
    shifted = np.maximum(np.minimum(x, last), first) - first
    return np.floor(shifted * inverse - zero + _F(0.5)) * scale


def _levels(k: KernelBuild) -> tuple[int, int]:
    bits = int(k.attr("num_bits"))
    if not 2 <= bits <= 16:
        raise InvalidArgumentError(f"num_bits must be between 2 and 16, inclusive, was: {bits}", k.node.name)
    return int(bool(k.attr("narrow_range"))), (1 << bits) - 1


def _fixed_range(k: KernelBuild) -> tuple[Any, Any]:
    low, high = _F(k.attr("min")), _F(k.attr("max"))
    if not low < high:
        raise InvalidArgumentError(f"min has to be smaller than max, was: {low:g} >= {high:g}", k.node.name)
    return low, high


@register_kernel("FakeQuantWithMinMaxArgs")
def _fake_quant_args(k: KernelBuild) -> Kernel:
    (low, high), (qmin, qmax) = _fixed_range(k), _levels(k)
    return lambda x: _fake_quant(x, low, high, qmin, qmax)


@register_kernel("FakeQuantWithMinMaxArgsGradient")
def _fake_quant_args_gradient(k: KernelBuild) -> Kernel:
    (low, high), (qmin, qmax) = _fixed_range(k), _levels(k)
    first, last, _, _ = _nudge(low, high, qmin, qmax)

    def kernel(grad: Any, x: Any) -> Any:
        if grad.shape != x.shape:
            raise InvalidArgumentError("gradient and input must be the same size")
        return grad * ((x >= first) & (x <= last)).astype(_F)

    return kernel


def _check_vars(k: KernelBuild, x: Any, low: Any, high: Any) -> None:
    if "PerChannel" in k.node.op:
        depth = x.shape[-1] if x.ndim else 0
        for name, t in (("min", low), ("max", high)):
            if t.ndim != 1 or t.shape[0] != depth:
                raise InvalidArgumentError(
                    f"{name} has incorrect size, expected {depth} was {t.size}"
                    if t.ndim == 1
                    else f"`{name}` must be rank 1 but is rank {t.ndim}"
                )
    else:
        for name, t in (("min", low), ("max", high)):
            if t.ndim != 0:
                raise InvalidArgumentError(f"`{name}` must be rank 0 but is rank {t.ndim}")


@register_kernel(("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel"))
def _fake_quant_vars(k: KernelBuild) -> Kernel:
    qmin, qmax = _levels(k)

    def kernel(x: Any, low: Any, high: Any) -> Any:
        _check_vars(k, x, low, high)
        nothing = (low == 0) & (high == 0)
        safe = np.where(nothing, _F(1), high)
        return np.where(nothing, _F(0), _fake_quant(x, low, safe, qmin, qmax))

    return kernel


@register_kernel(("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient"))
def _fake_quant_vars_gradient(k: KernelBuild) -> Kernel:
    qmin, qmax = _levels(k)

    def kernel(grad: Any, x: Any, low: Any, high: Any) -> Any:
        if grad.shape != x.shape:
            raise InvalidArgumentError("gradient and input must be the same size")
        _check_vars(k, x, low, high)
        nothing = (low == 0) & (high == 0)
        first, last, _, _ = _nudge(low, np.where(nothing, _F(1), high), qmin, qmax)
        axes = tuple(range(x.ndim - low.ndim))
        # Products, not choices: what is infinite stays visible (as NaN) where it does not count.
        inside = nothing | ((x >= first) & (x <= last))
        below = ~nothing & (x < first)
        above = ~nothing & (x > last)
        return (
            grad * inside,
            np.add.reduce(grad * below, axis=axes),
            np.add.reduce(grad * above, axis=axes),
        )

    return kernel
