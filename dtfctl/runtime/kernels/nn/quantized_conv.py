"""Convolution of quantized images with quantized filters, into 32 bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.quantize import round_away
from dtfctl.runtime.kernels.nn.common import window_of
from dtfctl.runtime.kernels.nn.conv import check_filter, convolve, require_rank
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_F = np.float32


def _end(value: Any, name: str) -> Any:
    if value.ndim:
        raise InvalidArgumentError(f"{name} must be rank 0 but is rank {value.ndim}")
    return _F(value)


def _level(low: Any, high: Any, dtype: np.dtype[Any]) -> Any:
    """Return how much one step of a quantized value is."""
    info = np.iinfo(dtype)
    return _F(high - low) / _F(info.max - info.min)


def _from_zero(x: Any, low: Any, high: Any) -> Any:
    """Count the steps from the value that stands for 0, in float64: products of 8 bits stay exact in it."""
    info = np.iinfo(x.dtype)
    if low == high:
        return x.astype(np.float64) - info.min
    steps = 1 << (x.dtype.itemsize * 8)
    scale = steps / (float(high - low) * (steps / (steps - 1.0)))
    return x.astype(np.float64) + float(round_away(np.float64(low) * scale)) - info.min


@register_kernel(
    "QuantizedConv2D",
    Tinput=(dtypes.quint8, dtypes.qint8),
    Tfilter=(dtypes.quint8, dtypes.qint8),
    out_type=(dtypes.qint32,),
)
def quantized_conv2d(k: KernelBuild) -> Kernel:
    window, out_type = window_of(k, 2), k.dtype("out_type").np

    def kernel(x: Any, w: Any, x_min: Any, x_max: Any, w_min: Any, w_max: Any) -> Any:
        x_low, x_high = _end(x_min, "min_input"), _end(x_max, "max_input")
        w_low, w_high = _end(w_min, "min_filter"), _end(w_max, "max_filter")
        require_rank("input", x.shape, 4)
        require_rank("filter", w.shape, 4)
        if x.shape[3] != w.shape[2]:
            raise InvalidArgumentError(f"input and filter must have the same depth: {x.shape[3]} vs {w.shape[2]}")
        check_filter(x, w.shape)
        g = window.geometry(x.shape[1:-1], w.shape[:-2])
        sums = convolve(_from_zero(x, x_low, x_high), _from_zero(w, w_low, w_high), g)
        info = np.iinfo(out_type)
        level = _level(x_low, x_high, x.dtype) * _level(w_low, w_high, w.dtype)
        out = np.clip(sums, info.min, info.max).astype(out_type)
        return out, np.array(level * _F(info.min), _F), np.array(level * _F(info.max), _F)

    return kernel
