"""Max and average pooling of images and their gradients on a GPU."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.errors import UnimplementedError
from dtfctl.runtime.kernels.cuda.arrays import CUDA_FLOATS, CUDA_NUMBERS
from dtfctl.runtime.kernels.cuda.launch import launch
from dtfctl.runtime.kernels.nn.common import Window
from dtfctl.runtime.kernels.nn.gpu_common import channels_last, from_channels_last, offsets, plane_arguments
from dtfctl.runtime.kernels.nn.pooling import depth_pool, expect_shape, lowest, place, pool_window
from dtfctl.runtime.kernels.registry import GPU, Kernel, KernelBuild, register_kernel


def _spatial_window(k: KernelBuild) -> Window:
    window, depth = pool_window(k, 2)
    if depth > 1:
        raise UnimplementedError("This pooling over channels is not supported on any device", k.node.name)
    return window


@register_kernel("MaxPool", devices=GPU, T=CUDA_NUMBERS)
def max_pool(k: KernelBuild) -> Kernel:
    (window, depth), xp = pool_window(k, 2), k.xp

    def kernel(x: Any) -> Any:
        x = channels_last(xp, x, window)
        g = place(x, window, 2)
        if depth > 1:
            return from_channels_last(xp, depth_pool(x, depth), window)
        out = xp.empty((x.shape[0], *g.output, x.shape[-1]), x.dtype)
        arguments = (x, out, *plane_arguments(x.shape, g), *offsets(g), lowest(x.dtype))
        launch(xp, "pool", "max_pool", out.size, arguments, element=x.dtype.name)
        return from_channels_last(xp, out, window)

    return kernel


@register_kernel("MaxPoolGrad", devices=GPU, T=CUDA_NUMBERS)
def max_pool_grad(k: KernelBuild) -> Kernel:
    window, xp = _spatial_window(k), k.xp

    def kernel(x: Any, y: Any, grad: Any) -> Any:
        x, dy = channels_last(xp, x, window), channels_last(xp, grad, window)
        g = place(x, window, 2)
        expect_shape("grad", dy.shape, (x.shape[0], *g.output, x.shape[-1]))
        out = xp.empty(x.shape, x.dtype)
        arguments = (x, dy, out, *plane_arguments(x.shape, g), *offsets(g))
        launch(xp, "pool", "max_pool_grad", out.size, arguments, element=x.dtype.name)
        return from_channels_last(xp, out, window)

    return kernel


@register_kernel("AvgPool", devices=GPU, T=CUDA_FLOATS)
def avg_pool(k: KernelBuild) -> Kernel:
    window, xp = _spatial_window(k), k.xp

    def kernel(x: Any) -> Any:
        x = channels_last(xp, x, window)
        g = place(x, window, 2)
        out = xp.empty((x.shape[0], *g.output, x.shape[-1]), x.dtype)
        arguments = (x, out, *plane_arguments(x.shape, g), *offsets(g))
        launch(xp, "pool", "avg_pool", out.size, arguments, element=x.dtype.name)
        return from_channels_last(xp, out, window)

    return kernel


@register_kernel("AvgPoolGrad", devices=GPU, host_inputs=("orig_input_shape",), T=CUDA_FLOATS)
def avg_pool_grad(k: KernelBuild) -> Kernel:
    window, xp = _spatial_window(k), k.xp

    def kernel(orig_input_shape: Any, grad: Any) -> Any:
        shape = tuple(int(d) for d in orig_input_shape)
        if window.channels_first:
            shape = (shape[0], *shape[2:], shape[1])
        dy = channels_last(xp, grad, window)
        g = window.geometry(shape[1:-1], window.ksize)
        expect_shape("grad", dy.shape, (shape[0], *g.output, shape[-1]))
        out = xp.empty(shape, dy.dtype)
        arguments = (dy, out, *plane_arguments(shape, g), *offsets(g))
        launch(xp, "pool", "avg_pool_grad", out.size, arguments, element=dy.dtype.name)
        return from_channels_last(xp, out, window)

    return kernel
