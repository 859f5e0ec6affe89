"""Gather*, ResourceGather aside, and OneHot on a GPU: indices out of range give zeros, as on TensorFlow's GPUs."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.cuda.arrays import MOVABLE, contiguous
from dtfctl.runtime.kernels.cuda.gather import gather_on_gpu
from dtfctl.runtime.kernels.cuda.launch import launch
from dtfctl.runtime.kernels.cuda.sources import moved_as
from dtfctl.runtime.kernels.registry import GPU, INDICES, Kernel, KernelBuild, register_kernel


@register_kernel("Gather", devices=GPU, Tparams=MOVABLE, Tindices=INDICES)
def gather(k: KernelBuild) -> Kernel:
    xp = k.xp

    def kernel(params: Any, indices: Any) -> Any:
        if params.ndim < 1:
            raise InvalidArgumentError("params must be at least 1 dimensional")
        return gather_on_gpu(xp, params, indices, 0, 0)

    return kernel


@register_kernel("GatherV2", devices=GPU, host_inputs=("axis",), Tparams=MOVABLE, Tindices=INDICES)
def gather_v2(k: KernelBuild) -> Kernel:
    xp, batch_attr = k.xp, int(k.attr("batch_dims", 0))

    def kernel(params: Any, indices: Any, axis: Any) -> Any:
        at = int(axis)
        if params.ndim < 1 or not -params.ndim <= at < params.ndim:
            raise InvalidArgumentError(f"Expected axis in the range [{-params.ndim}, {params.ndim}), but got {at}")
        at %= params.ndim
        batch = batch_attr + indices.ndim if batch_attr < 0 else batch_attr
        if not 0 <= batch <= min(at, indices.ndim) or params.shape[:batch] != indices.shape[:batch]:
            raise InvalidArgumentError(
                f"batch_dims ({batch_attr}) does not fit params of shape {list(params.shape)}, indices of shape "
                f"{list(indices.shape)} and axis {at}"
            )
        return gather_on_gpu(xp, params, indices, at, batch)

    return kernel


@register_kernel("GatherNd", devices=GPU, Tparams=MOVABLE, Tindices=INDICES)
def gather_nd(k: KernelBuild) -> Kernel:
    xp = k.xp

    def kernel(params: Any, indices: Any) -> Any:
        if params.ndim < 1 or indices.ndim < 1 or indices.shape[-1] > params.ndim:
            raise InvalidArgumentError(
                f"index innermost dimension length must be <= params rank; saw indices {list(indices.shape)} and "
                f"params {list(params.shape)}"
            )
        depth = indices.shape[-1]
        out = xp.empty((*indices.shape[:-1], *params.shape[depth:]), params.dtype)
        limits = xp.asarray(np.array(params.shape[:depth] or (1,), np.int64))
        arguments = (contiguous(xp, params), contiguous(xp, indices), limits, out)
        sizes = (prod(indices.shape[:-1]), depth, prod(params.shape[depth:]))
        types = {"element": moved_as(params.dtype), "index": indices.dtype.name}
        launch(xp, "gather", "gather_nd", out.size, (*arguments, *sizes), **types)
        return out

    return kernel


@register_kernel(
    "OneHot",
    devices=GPU,
    host_inputs=("depth",),
    T=MOVABLE,
    TI=(dtypes.uint8, dtypes.int8, dtypes.int32, dtypes.int64),
)
def one_hot(k: KernelBuild) -> Kernel:
    xp, axis_attr = k.xp, int(k.attr("axis"))

    def kernel(indices: Any, depth: Any, on: Any, off: Any) -> Any:
        rank = indices.ndim + 1
        if axis_attr != -1 and not 0 <= axis_attr < rank:
            raise InvalidArgumentError(f"Expected axis to be -1 or between [0, {rank}).  But received: {axis_attr}")
        axis, levels = (rank - 1 if axis_attr == -1 else axis_attr), int(depth)
        if levels < 0:
            raise InvalidArgumentError(f"depth must be non-negative, got: {levels}")
        before, after = indices.shape[:axis], indices.shape[axis:]
        out = xp.empty((*before, levels, *after), on.dtype)
        arguments = (contiguous(xp, indices), contiguous(xp, on), contiguous(xp, off), out)
        types = {"element": moved_as(on.dtype), "index": indices.dtype.name}
        launch(xp, "one_hot", "one_hot", out.size, (*arguments, prod(before), levels, prod(after)), **types)
        return out

    return kernel
