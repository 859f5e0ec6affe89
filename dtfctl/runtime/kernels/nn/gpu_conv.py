"""Conv2D, depthwise convolution and their gradients on a GPU: patches by CUDA, products by the matrix library."""

from __future__ import annotations

from math import prod
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.cuda.arrays import CUDA_FLOATS, contiguous
from dtfctl.runtime.kernels.cuda.launch import launch, launch_rows
from dtfctl.runtime.kernels.nn.common import Geometry, window_of
from dtfctl.runtime.kernels.nn.conv import check_backprop, check_filter, full_input_shape, require_rank
from dtfctl.runtime.kernels.nn.depthwise import backprop_geometry, depthwise_window
from dtfctl.runtime.kernels.nn.gpu_common import channels_last, from_channels_last, offsets, plane_arguments
from dtfctl.runtime.kernels.registry import GPU, Kernel, KernelBuild, register_kernel

# Bytes the patches of one block of images may take.
_BLOCK_BYTES = 1 << 30


def _columns(xp: Any, x: Any, g: Geometry) -> Any:
    """x (n, h, w, c) -> patches (n * oh * ow, kh * kw * c)."""
    n, _, _, c = x.shape
    out = xp.empty((n * prod(g.output), prod(g.kernel) * c), x.dtype)
    arguments = (x, out, *plane_arguments(x.shape, g), *g.dilations, *offsets(g))
    launch(xp, "conv", "im2col", out.size, arguments, element=x.dtype.name)
    return out


def _blocks(shape: tuple[int, ...], g: Geometry, itemsize: int) -> list[slice]:
    each = prod(g.output) * prod(g.kernel) * shape[-1] * itemsize
    step = max(1, _BLOCK_BYTES // max(each, 1))
    return [slice(i, min(i + step, shape[0])) for i in range(0, shape[0], step)]


def _parts(x: Any, count: int) -> list[Any]:
    share = x.shape[-1] // count
    return [x[..., i * share : (i + 1) * share] for i in range(count)]


def _convolve(xp: Any, x: Any, w: Any, g: Geometry) -> Any:
    groups = x.shape[-1] // w.shape[-2]
    if groups > 1:
        pairs = zip(_parts(x, groups), _parts(w, groups))
        return xp.concatenate([_convolve(xp, contiguous(xp, a), b, g) for a, b in pairs], axis=-1)
    out = xp.zeros((x.shape[0], *g.output, w.shape[-1]), x.dtype)
    if out.size and x.size:
        matrix = w.reshape(-1, w.shape[-1])
        for block in _blocks(x.shape, g, x.itemsize):
            out[block] = (_columns(xp, x[block], g) @ matrix).reshape(out[block].shape)
    return out


def _input_gradient(xp: Any, dy: Any, w: Any, g: Geometry, shape: tuple[int, ...]) -> Any:
    groups = shape[-1] // w.shape[-2]
    if groups > 1:
        each = (*shape[:-1], w.shape[-2])
        pairs = zip(_parts(dy, groups), _parts(w, groups))
        return xp.concatenate([_input_gradient(xp, contiguous(xp, a), b, g, each) for a, b in pairs], axis=-1)
    out = xp.zeros(shape, dy.dtype)
    if out.size and dy.size:
        matrix = w.reshape(-1, w.shape[-1]).T
        for block in _blocks(shape, g, dy.itemsize):
            columns = contiguous(xp, dy[block].reshape(-1, dy.shape[-1]) @ matrix)
            part = out[block]
            arguments = (columns, part, *plane_arguments(part.shape, g), *g.dilations, *offsets(g))
            launch(xp, "conv", "col2im", part.size, arguments, element=dy.dtype.name)
    return out


def _filter_gradient(xp: Any, x: Any, dy: Any, g: Geometry, shape: tuple[int, ...]) -> Any:
    groups = x.shape[-1] // shape[-2]
    if groups > 1:
        each = (*shape[:-1], shape[-1] // groups)
        pairs = zip(_parts(x, groups), _parts(dy, groups))
        grads = [_filter_gradient(xp, contiguous(xp, a), contiguous(xp, b), g, each) for a, b in pairs]
        return xp.concatenate(grads, axis=-1)
    out = xp.zeros((prod(shape[:-1]), shape[-1]), x.dtype)
    if x.size and dy.size:
        for block in _blocks(x.shape, g, x.itemsize):
            out += _columns(xp, x[block], g).T @ dy[block].reshape(-1, shape[-1])
    return out.reshape(shape)


@register_kernel("Conv2D", devices=GPU, T=CUDA_FLOATS)
def conv2d(k: KernelBuild) -> Kernel:
    window, xp = window_of(k, 2), k.xp

    def kernel(x: Any, w: Any) -> Any:
        require_rank("convolution input", x.shape, 4)
        require_rank("convolution filter", w.shape, 4)
        x = channels_last(xp, x, window)
        check_filter(x, w.shape)
        g = window.geometry(x.shape[1:-1], w.shape[:-2])
        return from_channels_last(xp, _convolve(xp, x, w, g), window)

    return kernel


@register_kernel("Conv2DBackpropInput", devices=GPU, host_inputs=("input_sizes",), T=CUDA_FLOATS)
def conv2d_backprop_input(k: KernelBuild) -> Kernel:
    window, xp = window_of(k, 2), k.xp

    def kernel(sizes: Any, w: Any, out_backprop: Any) -> Any:
        require_rank("Conv2DBackpropInput: filter", w.shape, 4)
        require_rank("Conv2DBackpropInput: out_backprop", out_backprop.shape, 4)
        dy = channels_last(xp, out_backprop, window)
        shape = full_input_shape(sizes, dy, w, window)
        g = check_backprop(k.node.op, shape, w.shape, dy, window)
        return from_channels_last(xp, _input_gradient(xp, dy, w, g, shape), window)

    return kernel


@register_kernel("Conv2DBackpropFilter", devices=GPU, host_inputs=("filter_sizes",), T=CUDA_FLOATS)
def conv2d_backprop_filter(k: KernelBuild) -> Kernel:
    window, xp = window_of(k, 2), k.xp

    def kernel(x: Any, sizes: Any, out_backprop: Any) -> Any:
        if sizes.shape != (4,):
            raise InvalidArgumentError(f"{k.node.op}: filter must be 4-dimensional")
        require_rank(f"{k.node.op}: input", x.shape, 4)
        require_rank(f"{k.node.op}: out_backprop", out_backprop.shape, 4)
        shape = tuple(int(s) for s in sizes)
        x, dy = channels_last(xp, x, window), channels_last(xp, out_backprop, window)
        g = check_backprop(k.node.op, x.shape, shape, dy, window)
        return _filter_gradient(xp, x, dy, g, shape)

    return kernel


@register_kernel("DepthwiseConv2dNative", devices=GPU, T=CUDA_FLOATS)
def depthwise(k: KernelBuild) -> Kernel:
    window, xp = depthwise_window(k), k.xp

    def kernel(x: Any, w: Any) -> Any:
        require_rank("input", x.shape, 4)
        require_rank("filter", w.shape, 4)
        x, w = channels_last(xp, x, window), contiguous(xp, w)
        if x.shape[-1] != w.shape[2]:
            raise InvalidArgumentError(f"input and filter must have the same depth: {x.shape[-1]} vs {w.shape[2]}")
        g = window.geometry(x.shape[1:3], w.shape[:2])
        out = xp.empty((x.shape[0], *g.output, w.shape[2] * w.shape[3]), x.dtype)
        arguments = (x, w, out, *plane_arguments(x.shape, g, w.shape[3]), *g.dilations, *offsets(g))
        launch(xp, "conv", "depthwise", out.size, arguments, element=x.dtype.name)
        return from_channels_last(xp, out, window)

    return kernel


@register_kernel("DepthwiseConv2dNativeBackpropInput", devices=GPU, host_inputs=("input_sizes",), T=CUDA_FLOATS)
def depthwise_backprop_input(k: KernelBuild) -> Kernel:
    window, xp = depthwise_window(k), k.xp

    def kernel(sizes: Any, w: Any, out_backprop: Any) -> Any:
        shape = tuple(int(s) for s in sizes)
        if window.channels_first and len(shape) == 4:
            shape = (shape[0], shape[2], shape[3], shape[1])
        dy, w = channels_last(xp, out_backprop, window), contiguous(xp, w)
        g = backprop_geometry(shape, w.shape, dy, window, k.node.op)
        out = xp.empty(shape, dy.dtype)
        arguments = (dy, w, out, *plane_arguments(shape, g, w.shape[3]), *g.dilations, *offsets(g))
        launch(xp, "conv", "depthwise_input_grad", out.size, arguments, element=dy.dtype.name)
        return from_channels_last(xp, out, window)

    return kernel


@register_kernel("DepthwiseConv2dNativeBackpropFilter", devices=GPU, host_inputs=("filter_sizes",), T=CUDA_FLOATS)
def depthwise_backprop_filter(k: KernelBuild) -> Kernel:
    window, xp = depthwise_window(k), k.xp

    def kernel(x: Any, sizes: Any, out_backprop: Any) -> Any:
        shape = tuple(int(s) for s in sizes)
        x, dy = channels_last(xp, x, window), channels_last(xp, out_backprop, window)
        g = backprop_geometry(x.shape, shape, dy, window, k.node.op)
        out = xp.empty(shape, x.dtype)
        arguments = (x, dy, out, *plane_arguments(x.shape, g, shape[3]), *g.dilations, *offsets(g))
        launch_rows(xp, "conv", "depthwise_filter_grad", out.size, arguments, element=x.dtype.name)
        return out

    return kernel
