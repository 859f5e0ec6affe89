"""Convolutions of one to three spatial dimensions and their gradients: by oneDNN where it is installed (onednn/), else
by im2col and matrix products, in blocks.

Data is channels-last inside; channels-first inputs are transposed on the way in and out. Blocks of the batch are sized
so that the matrix of patches stays in cache. Half is computed in float32, and bfloat16 where oneDNN cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.into.low_precision import BFLOAT16, gains
from dtfctl.runtime.kernels.into.products import multiply
from dtfctl.runtime.kernels.nn.common import Geometry, Window, shape_text, window_of, work_dtype
from dtfctl.runtime.kernels.onednn.cache import convolution_for
from dtfctl.runtime.kernels.promises import NONE, OF_SHAPES, Promises, ShapeFrom
from dtfctl.runtime.kernels.registry import FLOATS, Kernel, KernelBuild, register_kernel

# Bytes the matrix of patches of one block may take.
_BLOCK_BYTES = 4 << 20


def _blocks(batch: int, bytes_each: int) -> Iterator[slice]:
    size = max(1, _BLOCK_BYTES // max(bytes_each, 1))
    for begin in range(0, batch, size):
        yield slice(begin, min(batch, begin + size))


def is_pointwise(g: Geometry) -> bool:
    return prod(g.kernel) == 1 and prod(g.strides) == 1 and not g.padded


def _patches(padded: Any, g: Geometry) -> Any:
    """View (N, *output, *kernel, C) of the windows of a padded input (N, *spatial, C)."""
    n, c = padded.shape[0], padded.shape[-1]
    steps = padded.strides[1:-1]
    return np.lib.stride_tricks.as_strided(
        padded,
        (n, *g.output, *g.kernel, c),
        (
            padded.strides[0],
            *(s * t for s, t in zip(steps, g.strides)),
            *(s * d for s, d in zip(steps, g.dilations)),
            padded.strides[-1],
        ),
        writeable=False,
    )


def by_onednn(dtype: np.dtype[Any], x_shape: tuple[int, ...], w_shape: tuple[int, ...], g: Geometry) -> Any:
    """Find oneDNN's convolution for this geometry; None where there is none, or where a product of float32 is one."""
    if is_pointwise(g) and dtype != BFLOAT16:
        return None
    return convolution_for(dtype, x_shape, w_shape, g.output, g.strides, g.dilations, g.pads)


def convolve(x: Any, w: Any, g: Geometry, out: Any = None) -> Any:
    """Cross-correlation of x (N, *spatial, C) with w (*kernel, C / groups, O): (N, *output, O), in `out` if given.

    All arrays of this and of the gradients are contiguous.
    """
    n, depth, out_depth = x.shape[0], w.shape[-2], w.shape[-1]
    groups = x.shape[-1] // depth
    if out is None:
        out = np.empty((n, *g.output, out_depth), x.dtype)
    if not out.size:
        return out
    if not x.size or not w.size:
        out[...] = 0
        return out
    if groups > 1:
        share = out_depth // groups
        for i in range(groups):
            part = np.ascontiguousarray(x[..., i * depth : (i + 1) * depth])
            filters = np.ascontiguousarray(w[..., i * share : (i + 1) * share])
            out[..., i * share : (i + 1) * share] = convolve(part, filters, g)
        return out
    best = by_onednn(x.dtype, x.shape, w.shape, g)
    if best is not None:
        best.forward(x, w, out)
        return out
    matrix = w.reshape(-1, out_depth)
    if is_pointwise(g):
        np.matmul(x.reshape(-1, depth), matrix, out=out.reshape(-1, out_depth))
        return out
    columns = matrix.shape[0]
    for block in _blocks(n, prod(g.output) * columns * x.itemsize):
        patches = _patches(g.pad(np, np.ascontiguousarray(x[block])), g).reshape(-1, columns)
        np.matmul(patches, matrix, out=out[block].reshape(-1, out_depth))
    return out


def input_gradient(dy: Any, w: Any, g: Geometry, channels: int, out: Any = None) -> Any:
    """Gradient by the input (N, *spatial, channels) of `convolve`, given dy (N, *output, O); in `out` if given."""
    n, depth, out_depth = dy.shape[0], w.shape[-2], w.shape[-1]
    groups = channels // depth
    if groups > 1:
        share = out_depth // groups
        parts = [
            input_gradient(
                np.ascontiguousarray(dy[..., i * share : (i + 1) * share]),
                np.ascontiguousarray(w[..., i * share : (i + 1) * share]),
                g,
                depth,
            )
            for i in range(groups)
        ]
        return np.concatenate(parts, axis=-1, out=out)
    if out is None:
        out = np.empty((n, *g.input, channels), dy.dtype)
    if not dy.size or not w.size:
        out[...] = 0
        return out
    if channels == 1 and not is_pointwise(g) and dy.dtype.kind == "f":
        return _gradient_of_one_channel(dy, w, g, out)
    best = by_onednn(dy.dtype, out.shape, w.shape, g)
    if best is not None:
        best.input_gradient(dy, w, out)
        return out
    matrix = np.ascontiguousarray(w.reshape(-1, out_depth).T)
    if is_pointwise(g):
        np.matmul(dy.reshape(-1, out_depth), matrix, out=out.reshape(-1, channels))
        return out
    taps = list(product(*map(range, g.kernel)))
    for block in _blocks(n, prod(g.output) * matrix.shape[1] * dy.itemsize):
        rows = dy[block].reshape(-1, out_depth)
        columns = np.matmul(rows, matrix).reshape(-1, *g.output, len(taps), channels)
        padded = np.zeros((columns.shape[0], *g.reach, channels), dy.dtype)
        for i, offset in enumerate(taps):
            padded[(slice(None), *g.tap(offset))] += columns[..., i, :]
        out[block] = padded[(slice(None), *g.inner)]
    return out


def _gradient_of_one_channel(dy: Any, w: Any, g: Geometry, out: Any) -> Any:
    """Compute a plane for each tap of the filter, and add them up where they belong.

    oneDNN computes 16 channels at a time, whether they are there or not.
    """
    taps = list(product(*map(range, g.kernel)))
    matrix = w.reshape(len(taps), w.shape[-1])
    for block in _blocks(dy.shape[0], prod(g.output) * len(taps) * dy.itemsize):
        rows = dy[block].reshape(-1, w.shape[-1])
        planes = multiply(matrix, rows, False, True).reshape(len(taps), -1, *g.output)
        padded = np.zeros((planes.shape[1], *g.reach), dy.dtype)
        for plane, offset in zip(planes, taps):
            padded[(slice(None), *g.tap(offset))] += plane
        out[block] = padded[(slice(None), *g.inner)][..., np.newaxis]
    return out


def filter_gradient(x: Any, dy: Any, g: Geometry, filter_shape: tuple[int, ...], out: Any = None) -> Any:
    """Gradient by the filter of `convolve`, given dy (N, *output, O); in `out` if given."""
    depth, out_depth = filter_shape[-2:]
    groups = x.shape[-1] // depth
    if groups > 1:
        share = out_depth // groups
        shape = (*filter_shape[:-1], share)
        parts = [
            filter_gradient(
                np.ascontiguousarray(x[..., i * depth : (i + 1) * depth]),
                np.ascontiguousarray(dy[..., i * share : (i + 1) * share]),
                g,
                shape,
            )
            for i in range(groups)
        ]
        return np.concatenate(parts, axis=-1, out=out)
    columns = prod(filter_shape[:-1])
    if out is None:
        out = np.empty(filter_shape, x.dtype)
    total = out.reshape(columns, out_depth)
    if dy.size and x.size:
        best = by_onednn(x.dtype, x.shape, filter_shape, g)
        if best is not None:
            best.filter_gradient(x, dy, out)
            return out
        if is_pointwise(g):
            np.matmul(x.reshape(-1, depth).T, dy.reshape(-1, out_depth), out=total)
            return out
    total[...] = 0
    if not dy.size or not x.size:
        return out
    for block in _blocks(x.shape[0], prod(g.output) * columns * x.itemsize):
        patches = _patches(g.pad(np, np.ascontiguousarray(x[block])), g).reshape(-1, columns)
        total += np.matmul(patches.T, dy[block].reshape(-1, out_depth))
    return out


def _in(x: Any, window: Window) -> Any:
    return np.moveaxis(x, 1, -1) if window.channels_first else x


def _computed_in(dtype: np.dtype[Any], x: tuple[int, ...], w: tuple[int, ...], g: Geometry) -> np.dtype[Any]:
    """Choose the type that a convolution of such shapes is computed in."""
    if dtype == BFLOAT16 and gains() and by_onednn(dtype, x, w, g) is not None:
        return dtype
    return work_dtype(dtype)


def _out(x: Any, window: Window, dtype: np.dtype[Any]) -> Any:
    x = np.moveaxis(x, -1, 1) if window.channels_first else x
    return np.ascontiguousarray(x, dtype)


def check_filter(x: Any, w_shape: tuple[int, ...]) -> None:
    if w_shape[-2] <= 0:
        raise InvalidArgumentError(f"filter depth must be stricly positive, got {w_shape[-2]}")
    if x.shape[-1] % w_shape[-2]:
        raise InvalidArgumentError(
            f"input depth must be evenly divisible by filter depth: {x.shape[-1]} vs {w_shape[-2]}"
        )
    if 0 in w_shape[:-1]:
        raise InvalidArgumentError("filter must not have zero elements (i.e. all dimensions must be non-zero)")
    groups = x.shape[-1] // w_shape[-2]
    if groups <= 0:
        raise InvalidArgumentError(f"number of groups must be stricly positive, got {groups}")
    if w_shape[-1] % groups:
        raise InvalidArgumentError(
            f"output depth must be evenly divisible by number of groups: {w_shape[-1]} vs {groups}"
        )


def require_rank(name: str, shape: tuple[int, ...], rank: int) -> None:
    if len(shape) != rank:
        raise InvalidArgumentError(f"{name} must be {rank}-dimensional: {shape_text(shape)}")


def _convolved(x: Any, w: Any, window: Window, dtype: np.dtype[Any]) -> Any:
    x = _in(x, window)
    check_filter(x, w.shape)
    g = window.geometry(x.shape[1:-1], w.shape[:-2])
    work = _computed_in(dtype, x.shape, w.shape, g)
    return _out(convolve(np.ascontiguousarray(x, work), np.ascontiguousarray(w, work), g), window, dtype)


@register_kernel("Conv2D", promises=OF_SHAPES, T=(*FLOATS, dtypes.int32))
def conv2d(k: KernelBuild) -> Kernel:
    return _forward(k, 2)


@register_kernel("Conv3D", promises=OF_SHAPES, T=FLOATS)
def conv3d(k: KernelBuild) -> Kernel:
    return _forward(k, 3)


def _forward(k: KernelBuild, spatial: int) -> Kernel:
    window, dtype = window_of(k, spatial), k.dtype("T").np

    def kernel(x: Any, w: Any) -> Any:
        require_rank("convolution input", x.shape, spatial + 2)
        require_rank("convolution filter", w.shape, spatial + 2)
        return _convolved(x, w, window, dtype)

    return kernel


@register_kernel("Conv", T=(*FLOATS, dtypes.int32))
def conv(k: KernelBuild) -> Kernel:
    """Convolve over one to three spatial dimensions, with any batch dimensions; groups follow from the shapes."""
    batch_dims = k.attr("batch_dims", 1)
    dtype = k.dtype("T").np

    def kernel(x: Any, w: Any) -> Any:
        spatial = w.ndim - 2
        if spatial not in (1, 2, 3) or x.ndim != batch_dims + spatial + 1:
            raise InvalidArgumentError(
                f"convolution input of shape {shape_text(x.shape)} does not fit a filter of shape "
                f"{shape_text(w.shape)} and {batch_dims} batch dimensions"
            )
        window = window_of(k, spatial)
        lead = x.shape[:batch_dims]
        out = _convolved(x.reshape((-1, *x.shape[batch_dims:])), w, window, dtype)
        return out.reshape(lead + out.shape[1:])

    return kernel


def full_input_shape(sizes: Any, dy: Any, w: Any, window: Window) -> tuple[int, ...]:
    """Channels-last input shape from `input_sizes`, which may be [H, W] only."""
    if sizes.ndim != 1:
        raise InvalidArgumentError(f"Conv2DBackpropInput: input_sizes input must be 1-dim, not {sizes.ndim}")
    shape = tuple(int(s) for s in sizes)
    if len(shape) == dy.ndim - 2:
        return (dy.shape[0], *shape, w.shape[-2])
    if len(shape) != dy.ndim:
        raise InvalidArgumentError(
            "Conv2DBackpropInput requires input_sizes to contain 4 values or 2 values, but got: " + str(len(shape))
        )
    return (shape[0], *shape[2:], shape[1]) if window.channels_first else shape


def check_backprop(label: str, shape: tuple[int, ...], w_shape: tuple[int, ...], dy: Any, window: Window) -> Geometry:
    rank = len(w_shape)
    for name, have in (("input", len(shape)), ("out_backprop", dy.ndim)):
        if have != rank:
            raise InvalidArgumentError(f"{label}: {name} must be {rank}-dimensional")
    if shape[0] != dy.shape[0]:
        raise InvalidArgumentError(
            f"{label}: input and out_backprop must have the same batch size. Input batch: {shape[0]}, outbackprop "
            f"batch: {dy.shape[0]}, batch_dim: 0"
        )
    if w_shape[-2] <= 0:
        raise InvalidArgumentError(f"filter depth must be stricly positive, got {w_shape[-2]}")
    if shape[-1] % w_shape[-2]:
        raise InvalidArgumentError(f"{label}: input depth must be evenly divisible by filter depth")
    if w_shape[-1] != dy.shape[-1]:
        raise InvalidArgumentError(f"{label}: filter and out_backprop must have the same out_depth")
    g = window.geometry(shape[1:-1], w_shape[:-2])
    for i, (have, want) in enumerate(zip(dy.shape[1:-1], g.output)):
        if have != want:
            raise InvalidArgumentError(
                f"{label}: Size of out_backprop doesn't match computed: actual = {have}, computed = {want} "
                f"spatial_dim: {i} input: {g.input[i]} filter: {g.kernel[i]} output: {have} stride: {g.strides[i]} "
                f"dilation: {g.dilations[i]}"
            )
    return g


def _backprop_input(k: KernelBuild, spatial: int, by_shape: bool) -> Kernel:
    window, dtype = window_of(k, spatial), k.dtype("T").np
    op = k.node.op

    def kernel(input_or_sizes: Any, w: Any, out_backprop: Any) -> Any:
        require_rank(f"{op}: filter", w.shape, spatial + 2)
        require_rank(f"{op}: out_backprop", out_backprop.shape, spatial + 2)
        dy = _in(out_backprop, window)
        sizes = input_or_sizes if by_shape else np.array(input_or_sizes.shape)
        shape = full_input_shape(sizes, dy, w, window)
        g = check_backprop(op, shape, w.shape, dy, window)
        work = _computed_in(dtype, shape, w.shape, g)
        dx = input_gradient(np.ascontiguousarray(dy, work), np.ascontiguousarray(w, work), g, shape[-1])
        return _out(dx, window, dtype)

    return kernel


def _backprop_filter(k: KernelBuild, spatial: int, by_shape: bool) -> Kernel:
    window, dtype = window_of(k, spatial), k.dtype("T").np
    op = k.node.op

    def kernel(x: Any, filter_or_sizes: Any, out_backprop: Any) -> Any:
        if by_shape and filter_or_sizes.ndim != 1:
            raise InvalidArgumentError(f"{op}: filter_sizes input must be 1-dim, not {filter_or_sizes.ndim}")
        w_shape = tuple(int(s) for s in filter_or_sizes) if by_shape else tuple(filter_or_sizes.shape)
        if len(w_shape) != spatial + 2:
            raise InvalidArgumentError(f"{op}: filter must be {spatial + 2}-dimensional")
        require_rank(f"{op}: input", x.shape, spatial + 2)
        require_rank(f"{op}: out_backprop", out_backprop.shape, spatial + 2)
        x, dy = _in(x, window), _in(out_backprop, window)
        g = check_backprop(op, x.shape, w_shape, dy, window)
        work = _computed_in(dtype, x.shape, w_shape, g)
        dw = filter_gradient(np.ascontiguousarray(x, work), np.ascontiguousarray(dy, work), g, w_shape)
        return dw.astype(dtype, copy=False)

    return kernel


for _op, _spatial, _by_shape in (
    ("Conv2DBackpropInput", 2, True),
    ("Conv2DBackpropInputV2", 2, False),
    ("Conv3DBackpropInput", 3, False),
    ("Conv3DBackpropInputV2", 3, True),
):
    _kept = Promises(lets_go=True, shape_from=ShapeFrom(("input_sizes",))) if _by_shape else NONE
    register_kernel(_op, promises=_kept, T=(*FLOATS, dtypes.int32) if _spatial == 2 else FLOATS)(
        partial(_backprop_input, spatial=_spatial, by_shape=_by_shape)
    )
for _op, _spatial, _by_shape in (
    ("Conv2DBackpropFilter", 2, True),
    ("Conv2DBackpropFilterV2", 2, False),
    ("Conv3DBackpropFilter", 3, False),
    ("Conv3DBackpropFilterV2", 3, True),
):
    _kept = Promises(lets_go=True, shape_from=ShapeFrom(("filter_sizes",))) if _by_shape else NONE
    register_kernel(_op, promises=_kept, T=FLOATS)(partial(_backprop_filter, spatial=_spatial, by_shape=_by_shape))
