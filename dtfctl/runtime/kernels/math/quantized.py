"""Changing the range and the type of quantized tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.quantize import float_to_quantized, quantized_to_float
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_F = np.float32


def _one(t: Any, name: str) -> float:
    if t.size != 1:
        raise InvalidArgumentError(f"{name} must be a scalar, but has {t.size} elements")
    return float(t.reshape(()))


def _used_range(x: Any, low: float, high: float) -> tuple[float, float]:
    """Find the float range the values of x cover, 0 always included."""
    if x.size == 0:
        return low, high
    ends = quantized_to_float(np.array([x.min(), x.max()], x.dtype), low, high)
    return min(0.0, float(ends[0])), max(0.0, float(ends[1]))


@register_kernel("QuantizeDownAndShrinkRange")
def _shrink(k: KernelBuild) -> Kernel:
    out = k.dtype("out_type").np

    def kernel(x: Any, input_min: Any, input_max: Any) -> Any:
        low, high = _one(input_min, "input_min"), _one(input_max, "input_max")
        used_low, used_high = _used_range(x, low, high)
        y = float_to_quantized(quantized_to_float(x, low, high), used_low, used_high, out)
        return y, np.array(used_low, _F), np.array(used_high, _F)

    return kernel


@register_kernel("RequantizationRange")
def _requantization_range(k: KernelBuild) -> Kernel:
    def kernel(x: Any, input_min: Any, input_max: Any) -> Any:
        low, high = _used_range(x, _one(input_min, "input_min"), _one(input_max, "input_max"))
        return np.array(low, _F), np.array(high, _F)

    return kernel


@register_kernel("Requantize")
def _requantize(k: KernelBuild) -> Kernel:
    out = k.dtype("out_type").np

    def kernel(x: Any, input_min: Any, input_max: Any, wanted_min: Any, wanted_max: Any) -> Any:
        low, high = _one(wanted_min, "requested_output_min"), _one(wanted_max, "requested_output_max")
        if low > 0:
            raise InvalidArgumentError(f"requested_output_min must be <= 0, but got {low:g}")
        if high < low:
            raise InvalidArgumentError(
                f"requested_output_max must be >= requested_output_min, but got {high:g} and {low:g}"
            )
        values = quantized_to_float(x, _one(input_min, "input_min"), _one(input_max, "input_max"))
        return float_to_quantized(values, low, high, out), np.array(low, _F), np.array(high, _F)

    return kernel
