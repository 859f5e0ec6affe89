"""Colors: HSV conversions and adjustments of contrast, hue and saturation (colorspace_op, adjust_*_op)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import FailedPreconditionError, InvalidArgumentError
from dtfctl.runtime.kernels.nn.common import low_in_float32
from dtfctl.runtime.kernels.registry import FLOATS, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text

_ADJUSTED = (dtypes.float16, dtypes.float32)


def rgb_to_hsv(rgb: Any) -> Any:
    """(..., 3) in [0, 1] -> hue, saturation, value, each in [0, 1]."""
    r, g, b = rgb[..., 0], rgb[..., 1], rgb[..., 2]
    value = rgb.max(axis=-1)
    spread = value - rgb.min(axis=-1)
    one = rgb.dtype.type(1)
    with np.errstate(all="ignore"):
        saturation = np.where(value > 0, spread / value, 0)
        norm = one / (6 * spread)
        hue = np.where(
            r == value,
            norm * (g - b),
            np.where(g == value, norm * (b - r) + one * 2 / 6, norm * (r - g) + one * 4 / 6),
        )
    hue = np.where(spread > 0, hue, 0)
    hue = np.where(hue < 0, hue + 1, hue)
    return np.stack([hue, saturation, value], axis=-1).astype(rgb.dtype, copy=False)


def hsv_to_rgb(hsv: Any) -> Any:
    h, s, v = hsv[..., 0] * 6, hsv[..., 1], hsv[..., 2]
    parts = [np.abs(h - 3) - 1, 2 - np.abs(h - 2), 2 - np.abs(h - 4)]
    channels = [((1 - s) + s * np.clip(part, 0, 1)) * v for part in parts]
    return np.stack(channels, axis=-1).astype(hsv.dtype, copy=False)


def _channels(images: Any, least: int = 1) -> None:
    if images.ndim < least:
        raise InvalidArgumentError(f"input must be at least {least}-D, got shape{shape_text(images.shape)}")
    if images.shape[-1] != 3:
        raise (InvalidArgumentError if least > 1 else FailedPreconditionError)(
            f"input must have 3 channels but instead has {images.shape[-1]} channels."
        )


@register_kernel("RGBToHSV", T=FLOATS)
def rgb_to_hsv_op(k: KernelBuild) -> Kernel:
    def function(images: Any) -> Any:
        _channels(images)
        return rgb_to_hsv(images)

    return low_in_float32(k.dtype("T").np, function)


@register_kernel("HSVToRGB", T=FLOATS)
def hsv_to_rgb_op(k: KernelBuild) -> Kernel:
    def function(images: Any) -> Any:
        _channels(images)
        return hsv_to_rgb(images)

    return low_in_float32(k.dtype("T").np, function)


def _scalar(name: str, value: Any) -> np.float32:
    if value.ndim:
        raise InvalidArgumentError(f"{name} must be scalar: {shape_text(value.shape)}")
    return np.float32(value)


@register_kernel("AdjustHue", T=_ADJUSTED)
def adjust_hue(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T").np

    def kernel(images: Any, delta: Any) -> Any:
        _channels(images, 3)
        hsv = rgb_to_hsv(images.astype(np.float32))
        turned = hsv[..., 0] + _scalar("delta", delta)
        hsv[..., 0] = turned - np.floor(turned)
        return hsv_to_rgb(hsv).astype(dtype, copy=False)

    return kernel


@register_kernel("AdjustSaturation", T=_ADJUSTED)
def adjust_saturation(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T").np

    def kernel(images: Any, scale: Any) -> Any:
        _channels(images, 3)
        hsv = rgb_to_hsv(images.astype(np.float32))
        hsv[..., 1] = np.clip(hsv[..., 1] * _scalar("scale", scale), 0, 1)
        return hsv_to_rgb(hsv).astype(dtype, copy=False)

    return kernel


def _contrast(images: Any, factor: np.float32) -> Any:
    if images.ndim < 3:
        raise InvalidArgumentError(f"input must be at least 3-D, got shape{shape_text(images.shape)}")
    wide = images.astype(np.float64 if images.dtype == np.float64 else np.float32)
    if not wide.size:
        return wide
    mean = wide.mean(axis=(-3, -2), keepdims=True, dtype=wide.dtype)
    return (wide - mean) * factor + mean


@register_kernel("AdjustContrastv2", T=_ADJUSTED)
def adjust_contrast_v2(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T").np

    def kernel(images: Any, contrast_factor: Any) -> Any:
        return _contrast(images, _scalar("contrast_factor", contrast_factor)).astype(dtype, copy=False)

    return kernel


@register_kernel("AdjustContrast")
def adjust_contrast(k: KernelBuild) -> Kernel:
    def kernel(images: Any, contrast_factor: Any, min_value: Any, max_value: Any) -> Any:
        result = _contrast(images, _scalar("contrast_factor", contrast_factor))
        low, high = _scalar("min_value", min_value), _scalar("max_value", max_value)
        return np.clip(result, low, high).astype(np.float32, copy=False)

    return kernel
