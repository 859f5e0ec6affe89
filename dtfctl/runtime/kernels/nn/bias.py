"""BiasAdd and its gradient (bias_op), L2Loss, and moving dimensions between data formats (data_format_ops)."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.nn.common import shape_text, work_dtype
from dtfctl.runtime.kernels.promises import LIKE_FIRST, OF_SHAPES
from dtfctl.runtime.kernels.registry import CPU_GPU, FLOATS, INDICES, NUMBERS, Kernel, KernelBuild, register_kernel


@register_kernel(("BiasAdd", "BiasAddV1"), devices=CPU_GPU, promises=LIKE_FIRST, T=NUMBERS)
def bias_add(k: KernelBuild) -> Kernel:
    first = k.text_attr("data_format", "NHWC") == "NCHW"

    def kernel(value: Any, bias: Any) -> Any:
        if value.ndim < 2:
            raise InvalidArgumentError(f"Input tensor must be at least 2D: {shape_text(value.shape)}")
        if bias.ndim != 1:
            raise InvalidArgumentError(f"Biases must be 1D: {shape_text(bias.shape)}")
        if bias.shape[0] != value.shape[1 if first else -1]:
            raise InvalidArgumentError(
                "Must provide as many biases as the last dimension of the input tensor: "
                f"{shape_text(bias.shape)} vs. {shape_text(value.shape)}"
            )
        return value + (bias.reshape((-1,) + (1,) * (value.ndim - 2)) if first else bias)

    return kernel


@register_kernel("BiasAddGrad", devices=CPU_GPU, promises=OF_SHAPES, T=NUMBERS)
def bias_add_grad(k: KernelBuild) -> Kernel:
    xp, dtype = k.xp, k.dtype("T").np
    first, wide = k.text_attr("data_format", "NHWC") == "NCHW", work_dtype(dtype)

    def kernel(out_backprop: Any) -> Any:
        if out_backprop.ndim < 2:
            raise InvalidArgumentError(f"Input tensor must be at least 2D: {shape_text(out_backprop.shape)}")
        if first:
            axes = (0, *range(2, out_backprop.ndim))
            return out_backprop.sum(axis=axes, dtype=wide).astype(dtype, copy=False)
        rows = out_backprop.reshape(-1, out_backprop.shape[-1]) if out_backprop.size else out_backprop
        if rows is out_backprop:
            return xp.zeros(out_backprop.shape[-1:], dtype)
        if wide.kind == "f" and rows.shape[0] > 64:
            # One row of ones times the matrix: what BLAS does fastest, and it adds in blocks.
            return (xp.ones(rows.shape[0], wide) @ rows.astype(wide, copy=False)).astype(dtype, copy=False)
        return rows.sum(axis=0, dtype=wide).astype(dtype, copy=False)

    return kernel


@register_kernel("L2Loss", devices=CPU_GPU, promises=OF_SHAPES, T=FLOATS)
def l2_loss(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T").np
    wide = work_dtype(dtype)

    def kernel(t: Any) -> Any:
        flat = t.reshape(-1).astype(wide, copy=False)
        return (
            np.asarray((flat @ flat) * wide.type(0.5)).astype(dtype)
            if k.xp is np
            else ((flat @ flat) / 2).astype(dtype)
        )

    return kernel


def _permutation(k: KernelBuild) -> list[int]:
    """Find for each place of the source format its place in the destination format."""
    source, destination = k.text_attr("src_format", "NHWC"), k.text_attr("dst_format", "NCHW")
    if len(source) not in (4, 5) or len(source) != len(destination):
        raise InvalidArgumentError(
            f"Source format must be of length 4 or 5, and as long as the destination format, received src_format = "
            f"{source}, dst_format = {destination}",
            k.node.name,
        )
    if set(source) != set(destination) or len(set(source)) != len(source):
        raise InvalidArgumentError(
            f"Destination and source format must determine a permutation, got {source} and {destination}", k.node.name
        )
    return [destination.index(c) for c in source]


@register_kernel("DataFormatDimMap", T=INDICES)
def data_format_dim_map(k: KernelBuild) -> Kernel:
    table = np.array(_permutation(k), k.dtype("T").np)
    size = len(table)

    def kernel(x: Any) -> Any:
        if x.size and (x.min() < -size or x.max() >= size):
            raise InvalidArgumentError(f"Expected dimensions in [-{size}, {size})")
        return table[x]

    return kernel


@register_kernel("DataFormatVecPermute", T=INDICES)
def data_format_vec_permute(k: KernelBuild) -> Kernel:
    source, destination = k.text_attr("src_format", "NHWC"), k.text_attr("dst_format", "NCHW")
    _permutation(k)
    spatial = [c for c in source if c in "DHW"]

    def kernel(x: Any) -> Any:
        if x.ndim not in (1, 2):
            raise InvalidArgumentError(f"input must be a vector or 2D tensor, but got shape {shape_text(x.shape)}")
        names, wanted = list(source), list(destination)
        if x.shape[0] == len(source) - 2:
            names, wanted = spatial, [c for c in destination if c in "DHW"]
        if x.shape[0] != len(names):
            raise InvalidArgumentError(
                f"1D input must be of size {len(source) - 2} or {len(source)}, but got shape {shape_text(x.shape)}"
            )
        if x.ndim == 2 and x.shape[1] != 2:
            raise InvalidArgumentError(
                f"Second dimension of 2D input must be of size 2, but got shape {shape_text(x.shape)}"
            )
        return x[[names.index(c) for c in wanted]]

    return kernel
