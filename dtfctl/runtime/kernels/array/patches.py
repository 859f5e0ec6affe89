"""Patches of images and volumes, laid out in the depth dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


def _patches(x: Any, sizes: tuple[int, ...], strides: tuple[int, ...], rates: tuple[int, ...], padding: str) -> Any:
    """x [batch, spatial..., depth] -> [batch, out spatial..., prod(sizes) * depth]."""
    m = len(sizes)
    pads, outs = [], []
    for d, size, stride, rate in zip(x.shape[1:-1], sizes, strides, rates):
        extent = (size - 1) * rate + 1
        if padding == "SAME":
            n = -(-d // stride)
            total = max(0, (n - 1) * stride + extent - d)
            pads.append((total // 2, total - total // 2))
        else:
            n = -(-(d - extent + 1) // stride)
            pads.append((0, 0))
        outs.append(n)
    if min(outs) < 0:
        raise InvalidArgumentError(
            f"Computed output size would be negative: {min(outs)} for input shape {text(x.shape)}"
        )
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    columns = []
    for offset in np.ndindex(*sizes):
        index = tuple(
            slice(o * r, o * r + (n - 1) * s + 1 if n else 0, s) for o, r, n, s in zip(offset, rates, outs, strides)
        )
        columns.append(x[(slice(None), *index)])
    out = np.stack(columns, axis=m + 1)
    return out.reshape(*out.shape[: m + 1], -1)


@register_kernel("ExtractImagePatches")
def _extract_image_patches(k: KernelBuild) -> Kernel:
    sizes, strides, rates = (tuple(k.attr(a)) for a in ("ksizes", "strides", "rates"))
    padding = k.text_attr("padding")
    for name, values in (("ksizes", sizes), ("strides", strides), ("rates", rates)):
        if len(values) != 4 or values[0] != 1 or values[3] != 1:
            raise InvalidArgumentError(f"{name} must be a 4-vector that starts and ends with 1", k.node.name)
        if values[1] <= 0 or values[2] <= 0:
            raise InvalidArgumentError(f"{name} must be positive", k.node.name)

    def kernel(x: Any) -> Any:
        if x.ndim != 4:
            raise InvalidArgumentError(f"input must be 4-dimensional{text(x.shape)}")
        return _patches(x, sizes[1:3], strides[1:3], rates[1:3], padding)

    return kernel


@register_kernel("ExtractVolumePatches")
def _extract_volume_patches(k: KernelBuild) -> Kernel:
    sizes, strides = (tuple(k.attr(a)) for a in ("ksizes", "strides"))
    padding = k.text_attr("padding")

    def kernel(x: Any) -> Any:
        if x.ndim != 5:
            raise InvalidArgumentError(f"input must be 5-dimensional{text(x.shape)}")
        return _patches(x, sizes[1:4], strides[1:4], (1, 1, 1), padding)

    return kernel
