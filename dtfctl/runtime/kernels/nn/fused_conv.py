"""Convolutions with mirror padding and resizing in front (conv_ops_fused_image_transform)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.image.resize import checked_size, resize_bilinear
from dtfctl.runtime.kernels.nn.common import shape_text, window_of, work_dtype
from dtfctl.runtime.kernels.nn.conv import convolve
from dtfctl.runtime.kernels.registry import FLOATS, Kernel, KernelBuild, register_kernel


def _padded(x: Any, paddings: Any, mode: str) -> Any:
    if x.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional{shape_text(x.shape)}")
    if paddings.shape != (4, 2):
        raise InvalidArgumentError(f"paddings must be a matrix with 2 columns: {shape_text(paddings.shape)}")
    pads = [(int(a), int(b)) for a, b in paddings]
    if min(min(p) for p in pads) < 0:
        raise InvalidArgumentError("Paddings must be non-negative")
    if pads[0] != (0, 0) or pads[3] != (0, 0):
        raise InvalidArgumentError("paddings of the batch and depth dimensions must be zero")
    most = [size - 1 if mode == "REFLECT" else size for size in x.shape]
    if any(max(p) > limit for p, limit in zip(pads, most)):
        raise InvalidArgumentError(f"paddings must be no greater than the dimension size: {pads}")
    return np.pad(x, pads, "reflect" if mode == "REFLECT" else "symmetric")


def _convolution(k: KernelBuild, x: Any, w: Any) -> Any:
    window = window_of(k, 2)
    if w.ndim != 4:
        raise InvalidArgumentError(f"filter must be 4-dimensional: {shape_text(w.shape)}")
    if x.shape[3] != w.shape[2]:
        raise InvalidArgumentError(f"input and filter must have the same depth: {x.shape[3]} vs {w.shape[2]}")
    dtype = k.dtype("T").np
    wide = work_dtype(dtype)
    g = window.geometry(x.shape[1:3], w.shape[:2])
    out = convolve(np.ascontiguousarray(x, wide), np.ascontiguousarray(w, wide), g)
    return out.astype(dtype, copy=False)


@register_kernel("FusedPadConv2D", T=FLOATS)
def fused_pad_conv2d(k: KernelBuild) -> Kernel:
    mode = k.text_attr("mode")
    return lambda x, paddings, w: _convolution(k, _padded(x, paddings, mode), w)


@register_kernel("FusedResizeAndPadConv2D", T=(dtypes.float16, dtypes.float32, dtypes.float64))
def fused_resize_and_pad_conv2d(k: KernelBuild) -> Kernel:
    mode, align = k.text_attr("mode"), k.attr("resize_align_corners", False)

    def kernel(x: Any, size: Any, paddings: Any, w: Any) -> Any:
        resized = resize_bilinear(x, *checked_size(x, size), align, False)
        return _convolution(k, _padded(resized, paddings, mode), w)

    return kernel
