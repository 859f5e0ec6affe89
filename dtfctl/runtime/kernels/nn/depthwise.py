"""Depthwise convolution and its gradients: one multiply-add of a few images for each tap of the filter.

Images have all output channels here, `multiplier` for each of the input, so that whole rows are multiplied at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.nn.common import Geometry, Window, shape_text, window_of, work_dtype
from dtfctl.runtime.kernels.registry import FLOATS, Kernel, KernelBuild, register_kernel


def depthwise_window(k: KernelBuild) -> Window:
    window = window_of(k, 2, "depthwise")
    if window.strides[0] != window.strides[1]:
        raise InvalidArgumentError(
            "Current implementation only supports equal length strides in the row and column dimensions.", k.node.name
        )
    return window


def _in(x: Any, window: Window, dtype: np.dtype[Any]) -> Any:
    x = np.moveaxis(x, 1, -1) if window.channels_first else x
    return np.ascontiguousarray(x, work_dtype(dtype))


def _out(x: Any, window: Window, dtype: np.dtype[Any]) -> Any:
    return np.ascontiguousarray(np.moveaxis(x, -1, 1) if window.channels_first else x, dtype)


# Bytes of output worked on at a time: what stays in a core's cache over all taps.
_BLOCK_BYTES = 1 << 18


def _blocks(images: Any) -> Iterator[slice]:
    """Slices of the first dimension, of about that many bytes each."""
    count = images.shape[0]
    step = max(1, _BLOCK_BYTES * count // max(1, images.nbytes))
    for start in range(0, count, step):
        yield slice(start, start + step)


def _widened(images: Any, multiplier: int) -> Any:
    """Repeat each channel as often as there are output channels of it."""
    return images if multiplier == 1 else np.repeat(images, multiplier, axis=-1)


def _filter_rows(g: Geometry, w: Any) -> dict[tuple[int, ...], Any]:
    """Lay out what a row of the output is multiplied with, for each tap."""
    width = g.output[1]
    return {tap: np.tile(w[tap].reshape(1, -1), (width, 1)) for tap in _taps(g)}


def _taps(g: Geometry) -> list[tuple[int, ...]]:
    return list(product(*map(range, g.kernel)))


@register_kernel("DepthwiseConv2dNative", T=FLOATS)
def depthwise_conv2d(k: KernelBuild) -> Kernel:
    window, dtype = depthwise_window(k), k.dtype("T").np

    def kernel(x: Any, w: Any) -> Any:
        if x.ndim != 4:
            raise InvalidArgumentError(f"input must be 4-dimensional{shape_text(x.shape)}")
        if w.ndim != 4:
            raise InvalidArgumentError(f"filter must be 4-dimensional: {shape_text(w.shape)}")
        wide = _in(x, window, dtype)
        if wide.shape[-1] != w.shape[2]:
            raise InvalidArgumentError(f"input and filter must have the same depth: {wide.shape[-1]} vs {w.shape[2]}")
        channels, multiplier = w.shape[2:]
        g = window.geometry(wide.shape[1:3], w.shape[:2])
        rows = _filter_rows(g, w.astype(wide.dtype, copy=False))
        out = np.zeros((wide.shape[0], *g.output, channels * multiplier), wide.dtype)
        padded = g.pad(np, wide)
        for block in _blocks(out):
            images, sums = _widened(padded[block], multiplier), out[block]
            terms = np.empty_like(sums)
            for tap, row in rows.items():
                sums += np.multiply(images[(slice(None), *g.tap(tap))], row, out=terms)
        return _out(out, window, dtype)

    return kernel


def backprop_geometry(shape: tuple[int, ...], w_shape: tuple[int, ...], dy: Any, window: Window, op: str) -> Geometry:
    if len(shape) != 4 or len(w_shape) != 4 or dy.ndim != 4:
        raise InvalidArgumentError(f"{op}: input, filter and out_backprop must be 4-dimensional")
    g = window.geometry(shape[1:3], w_shape[:2])
    if shape[0] != dy.shape[0]:
        raise InvalidArgumentError(f"{op}: input and out_backprop must have the same batch size")
    if shape[3] != w_shape[2] or dy.shape[3] != w_shape[2] * w_shape[3]:
        raise InvalidArgumentError(f"{op}: depths of input, filter and out_backprop do not match")
    if tuple(dy.shape[1:3]) != g.output:
        raise InvalidArgumentError(f"{op}: Size of out_backprop doesn't match computed {g.output}: {dy.shape[1:3]}")
    return g


@register_kernel("DepthwiseConv2dNativeBackpropInput", T=FLOATS)
def depthwise_backprop_input(k: KernelBuild) -> Kernel:
    window, dtype = depthwise_window(k), k.dtype("T").np

    def kernel(input_sizes: Any, w: Any, out_backprop: Any) -> Any:
        if input_sizes.ndim != 1:
            raise InvalidArgumentError(f"{k.node.op}: input_sizes input must be 1-dim, not {input_sizes.ndim}")
        shape = tuple(int(s) for s in input_sizes)
        if window.channels_first and len(shape) == 4:
            shape = (shape[0], shape[2], shape[3], shape[1])
        dy = _in(out_backprop, window, dtype)
        g = backprop_geometry(shape, w.shape, dy, window, k.node.op)
        rows = _filter_rows(g, w.astype(dy.dtype, copy=False))
        multiplier = w.shape[3]
        out = np.zeros(shape, dy.dtype)
        for block in _blocks(dy):
            grads, sums = dy[block], out[block]
            terms = np.empty_like(grads)
            padded = np.zeros((len(grads), *g.reach, grads.shape[3]), dy.dtype)
            for tap, row in rows.items():
                padded[(slice(None), *g.tap(tap))] += np.multiply(grads, row, out=terms)
            inner = padded[(slice(None), *g.inner)]
            for i in range(multiplier):
                sums += inner[..., i::multiplier]
        return _out(out, window, dtype)

    return kernel


@register_kernel("DepthwiseConv2dNativeBackpropFilter", T=FLOATS)
def depthwise_backprop_filter(k: KernelBuild) -> Kernel:
    window, dtype = depthwise_window(k), k.dtype("T").np

    def kernel(x: Any, filter_sizes: Any, out_backprop: Any) -> Any:
        if filter_sizes.ndim != 1:
            raise InvalidArgumentError(f"{k.node.op}: filter_sizes input must be 1-dim, not {filter_sizes.ndim}")
        shape = tuple(int(s) for s in filter_sizes)
        wide, dy = _in(x, window, dtype), _in(out_backprop, window, dtype)
        g = backprop_geometry(wide.shape, shape, dy, window, k.node.op)
        out = np.zeros(shape, wide.dtype)
        padded = g.pad(np, wide)
        for block in _blocks(dy):
            images, grads = _widened(padded[block], shape[3]), dy[block]
            terms = np.empty_like(grads)
            for tap in _taps(g):
                np.multiply(images[(slice(None), *g.tap(tap))], grads, out=terms)
                out[tap] += terms.sum(axis=(0, 1)).sum(axis=0).reshape(shape[2:])
        return out.astype(dtype, copy=False)

    return kernel
