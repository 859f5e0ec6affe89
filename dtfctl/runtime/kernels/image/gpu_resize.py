"""Bilinear and nearest-neighbour resizing on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.kernels.cuda.arrays import CUDA_NUMBERS, contiguous
from dtfctl.runtime.kernels.cuda.launch import launch
from dtfctl.runtime.kernels.image.resize import _check_attributes, checked_size, scale_of
from dtfctl.runtime.kernels.registry import GPU, Kernel, KernelBuild, register_kernel

_IMAGES = (*CUDA_NUMBERS, dtypes.uint8)


@register_kernel(("ResizeBilinear", "ResizeNearestNeighbor"), devices=GPU, host_inputs=("size",), T=_IMAGES)
def resize(k: KernelBuild) -> Kernel:
    (align, half), xp = _check_attributes(k), k.xp
    bilinear = k.node.op == "ResizeBilinear"

    def kernel(images: Any, size: Any) -> Any:
        height, width = checked_size(images, size)
        n, rows, columns, depth = images.shape
        out = xp.empty((n, height, width, depth), np.float32 if bilinear else images.dtype)
        scales = scale_of(rows, height, align), scale_of(columns, width, align)
        name, flags = ("resize_bilinear", (half,)) if bilinear else ("resize_nearest", (align, half))
        sizes = (n, rows, columns, depth, height, width)
        arguments = (contiguous(xp, images), out, *sizes, *scales, *(int(f) for f in flags))
        launch(xp, "resize", name, out.size, arguments, element=images.dtype.name)
        return out

    return kernel
