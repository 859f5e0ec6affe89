"""Max and average pooling in two and three dimensions, with gradients and gradients of gradients.

A window is walked tap by tap: one vectorised operation on whole planes for each of its elements. Where several elements
of a window hold the maximum, the first in row-major order counts (in three dimensions all do), as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.kernels.array.common import vector
from dtfctl.runtime.kernels.nn.common import Geometry, Window, shape_text, window_of, work_dtype
from dtfctl.runtime.kernels.pieces import update_at
from dtfctl.runtime.kernels.promises import OF_SHAPES
from dtfctl.runtime.kernels.registry import FLOATS, REALS, Kernel, KernelBuild, register_kernel

_finfo: Any = ml_dtypes.finfo
_ARGMAX = (dtypes.int32, dtypes.int64)


def lowest(dtype: np.dtype[Any]) -> Any:
    info: Any = np.iinfo(dtype) if dtype.kind in "iu" else _finfo(dtype)
    return dtype.type(info.min)


def pool_window(k: KernelBuild, spatial: int) -> tuple[Window, int]:
    """Read the spatial window and the depth of the pooling (1 unless channels are pooled)."""
    rank = spatial + 2
    window = _with_attributes(k, tuple(k.attr("ksize")), tuple(k.attr("strides")), rank)
    return window


def _with_attributes(k: KernelBuild, ksize: tuple[int, ...], strides: tuple[int, ...], rank: int) -> tuple[Window, int]:
    first = k.text_attr("data_format", "NHWC") in ("NCHW", "NCDHW")
    channel = 1 if first else rank - 1
    for values, name in ((ksize, "ksize"), (strides, "stride")):
        if len(values) != rank:
            raise InvalidArgumentError(f"Sliding window {name} field must specify {rank} dimensions", k.node.name)
        if min(values) <= 0:
            raise InvalidArgumentError(
                f"Sliding window {name} must be positive. The specified or inferred {name} is: "
                + ",".join(map(str, values)),
                k.node.name,
            )
    if ksize[0] != 1 or strides[0] != 1:
        raise UnimplementedError("Pooling is not yet supported on the batch dimension.", k.node.name)
    depth = ksize[channel]
    if depth != strides[channel] and depth > 1:
        raise UnimplementedError(
            "Depthwise max pooling requires the depth window to equal the depth stride.", k.node.name
        )
    space = range(2, rank) if first else range(1, rank - 1)
    if depth > 1 and any(ksize[i] != 1 for i in space):
        raise UnimplementedError(
            "MaxPooling supports exactly one of pooling across depth or pooling across width/height.", k.node.name
        )
    base = window_of(k, rank - 2, "pool") if k.attr("strides") is not None else None
    return (
        Window(
            tuple(strides[i] for i in space),
            (1,) * len(space),
            k.text_attr("padding"),
            base.explicit if base else (),
            first,
            tuple(ksize[i] for i in space),
        ),
        depth,
    )


def _last(x: Any, window: Window) -> Any:
    return np.moveaxis(x, 1, -1) if window.channels_first else x


def _back(x: Any, window: Window) -> Any:
    return np.ascontiguousarray(np.moveaxis(x, -1, 1)) if window.channels_first else x


def place(x: Any, window: Window, spatial: int, what: str = "tensor_in") -> Geometry:
    if x.ndim != spatial + 2:
        raise InvalidArgumentError(f"{what} must be {spatial + 2}-dimensional")
    return window.geometry(x.shape[1:-1], window.ksize).trimmed()


def _taps(g: Geometry) -> list[tuple[int, ...]]:
    return list(product(*map(range, g.kernel)))


def _along(g: Geometry, axis: int, offset: int, rank: int) -> tuple[slice, ...]:
    """Index of the padded input for one tap of one dimension."""
    index = [slice(None)] * rank
    index[axis + 1] = g.tap([offset if i == axis else 0 for i in range(len(g.kernel))])[axis]
    return tuple(index)


def max_pool(x: Any, g: Geometry) -> Any:
    """(N, *spatial, C) -> (N, *output, C), one dimension after the other."""
    low = lowest(x.dtype)
    current = g.pad(np, x, low)
    for axis, size in enumerate(g.kernel):
        out = current[_along(g, axis, 0, x.ndim)]
        for offset in range(1, size):
            out = np.maximum(out, current[_along(g, axis, offset, x.ndim)])
        current = out
    if x.dtype.kind not in "iu":
        return np.maximum(current, low)
    # Windows of one pixel have taken nothing but a look at the input.
    return current.copy() if np.may_share_memory(current, x) else np.ascontiguousarray(current)


def depth_pool(x: Any, depth: int) -> Any:
    if x.shape[-1] % depth:
        raise UnimplementedError("Depthwise max pooling requires the depth window to evenly divide the input depth")
    return x.reshape(*x.shape[:-1], x.shape[-1] // depth, depth).max(axis=-1)


def _max_pool(window: Window, depth: int, spatial: int, x: Any) -> Any:
    x = _last(x, window)
    g = place(x, window, spatial)
    out = depth_pool(x, depth) if depth > 1 else max_pool(x, g)
    return _back(out, window)


@register_kernel("MaxPool", promises=OF_SHAPES, T=(*REALS, dtypes.qint8))
def max_pool_2d(k: KernelBuild) -> Kernel:
    window, depth = pool_window(k, 2)
    return lambda x: _max_pool(window, depth, 2, x)


@register_kernel("MaxPool3D", promises=OF_SHAPES, T=FLOATS)
def max_pool_3d(k: KernelBuild) -> Kernel:
    window, depth = pool_window(k, 3)
    return lambda x: _max_pool(window, depth, 3, x)


def _late_window(k: KernelBuild, ksize: Any, strides: Any) -> tuple[Window, int]:
    """Read the window of ops that take ksize and strides as inputs."""
    return _with_attributes(k, vector(ksize, "ksize"), vector(strides, "strides"), 4)


@register_kernel("MaxPoolV2", T=(*REALS, dtypes.qint8))
def max_pool_v2(k: KernelBuild) -> Kernel:
    def kernel(x: Any, ksize: Any, strides: Any) -> Any:
        window, depth = _late_window(k, ksize, strides)
        return _max_pool(window, depth, 2, x)

    return kernel


def first_maximum(x: Any, g: Geometry) -> tuple[Any, Any]:
    """Find the maximum of each window and the number of the tap that holds it (-1 for a window without elements)."""
    padded = g.pad(np, x, lowest(x.dtype))
    exists = g.pad(np, np.ones((1, *x.shape[1:-1], 1), bool), False)
    best = np.full((x.shape[0], *g.output, x.shape[-1]), lowest(x.dtype), x.dtype)
    winner = np.full(best.shape, -1, np.int32)
    for i, tap in enumerate(_taps(g)):
        index = (slice(None), *g.tap(tap))
        values = padded[index]
        better = (values > best) | (winner < 0)
        better &= exists[index]
        np.copyto(best, values, where=better)
        winner[better] = i
    return best, winner


def _spread(values: Any, winner: Any, g: Geometry, shape: tuple[int, ...]) -> Any:
    """Add values to the input positions their windows' winners stand at."""
    out = np.zeros((shape[0], *g.reach, shape[-1]), values.dtype)
    zero = values.dtype.type(0)
    for i, tap in enumerate(_taps(g)):
        out[(slice(None), *g.tap(tap))] += np.where(winner == i, values, zero)
    return out[(slice(None), *g.inner)]


def _collect(values: Any, winner: Any, g: Geometry) -> Any:
    """Take for each window the value at its winner's position."""
    padded = g.pad(np, values)
    out = np.zeros(winner.shape, values.dtype)
    for i, tap in enumerate(_taps(g)):
        np.copyto(out, padded[(slice(None), *g.tap(tap))], where=winner == i)
    return out


def expect_shape(name: str, have: tuple[int, ...], want: tuple[int, ...]) -> None:
    if have != want:
        raise InvalidArgumentError(f"Expected {name} shape to be {shape_text(want)}, but got {shape_text(have)}")


def _output_shape(x: Any, g: Geometry, depth: int) -> tuple[int, ...]:
    return (x.shape[0], *g.output, x.shape[-1] // depth)


def _max_pool_grad(window: Window, depth: int, spatial: int, x: Any, y: Any, grad: Any) -> Any:
    x, y, grad = _last(x, window), _last(y, window), _last(grad, window)
    g = place(x, window, spatial)
    if depth > 1:
        raise UnimplementedError("Gradients of depthwise max pooling are not supported")
    expect_shape("orig_output", y.shape, _output_shape(x, g, 1))
    expect_shape("grad", grad.shape, _output_shape(x, g, 1))
    if spatial == 3:
        return _back(_near_maximum_grad(x, y, grad, g), window)
    _, winner = first_maximum(x, g)
    return _back(_spread(grad, winner, g, x.shape), window)


def _near_maximum_grad(x: Any, y: Any, grad: Any, g: Geometry) -> Any:
    """TensorFlow's three-dimensional rule: every element within 1e-5 of the maximum gets the whole gradient."""
    dtype = grad.dtype
    wide = work_dtype(dtype)
    padded = g.pad(np, x.astype(wide), np.inf)
    out = np.zeros((x.shape[0], *g.reach, x.shape[-1]), wide)
    y, grad = y.astype(wide), grad.astype(wide)
    for tap in _taps(g):
        index = (slice(None), *g.tap(tap))
        with np.errstate(invalid="ignore"):
            out[index] += np.where(np.abs(padded[index] - y) < 1e-5, grad, 0)
    return out[(slice(None), *g.inner)].astype(dtype)


def _max_pool_grad_grad(window: Window, depth: int, spatial: int, x: Any, y: Any, grad: Any) -> Any:
    x, y, grad = _last(x, window), _last(y, window), _last(grad, window)
    g = place(x, window, spatial)
    if depth > 1:
        raise UnimplementedError("Gradients of depthwise max pooling are not supported")
    expect_shape("orig_output", y.shape, _output_shape(x, g, 1))
    expect_shape("grad", grad.shape, x.shape)
    _, winner = first_maximum(x, g)
    return _back(_collect(grad, winner, g), window)


_Gradient = Callable[[Window, int, int, Any, Any, Any], Any]


def _fixed(gradient: _Gradient, spatial: int) -> Callable[[KernelBuild], Kernel]:
    def factory(k: KernelBuild) -> Kernel:
        window, depth = pool_window(k, spatial)
        return lambda x, y, grad: gradient(window, depth, spatial, x, y, grad)

    return factory


def _late(gradient: _Gradient) -> Callable[[KernelBuild], Kernel]:
    def factory(k: KernelBuild) -> Kernel:
        def kernel(x: Any, y: Any, grad: Any, ksize: Any, strides: Any) -> Any:
            window, depth = _late_window(k, ksize, strides)
            return gradient(window, depth, 2, x, y, grad)

        return kernel

    return factory


register_kernel("MaxPoolGrad", promises=OF_SHAPES, T=REALS)(_fixed(_max_pool_grad, 2))
register_kernel("MaxPoolGradV2", T=REALS)(_late(_max_pool_grad))
register_kernel("MaxPoolGradGrad", T=REALS)(_fixed(_max_pool_grad_grad, 2))
register_kernel("MaxPoolGradGradV2", T=REALS)(_late(_max_pool_grad_grad))
register_kernel("MaxPool3DGrad", promises=OF_SHAPES, T=FLOATS)(_fixed(_max_pool_grad, 3))
register_kernel("MaxPool3DGradGrad", T=REALS)(_fixed(_max_pool_grad_grad, 3))


@register_kernel("MaxPoolWithArgmax", T=REALS, Targmax=_ARGMAX)
def max_pool_with_argmax(k: KernelBuild) -> Kernel:
    window, _ = pool_window(k, 2)
    with_batch, index_type = k.attr("include_batch_in_index", False), k.dtype("Targmax").np

    def kernel(x: Any) -> tuple[Any, Any]:
        if not x.size:
            raise InvalidArgumentError("tensor_in must not be empty")
        g = place(x, window, 2)
        best, winner = first_maximum(x, g)
        _, height, width, channels = x.shape
        tap_row, tap_column = np.divmod(winner, g.kernel[1])
        rows = np.arange(g.output[0])[:, None, None] * g.strides[0] - g.pads[0][0] + tap_row
        columns = np.arange(g.output[1])[:, None] * g.strides[1] - g.pads[1][0] + tap_column
        index = (rows * width + columns) * channels + np.arange(channels)
        if with_batch:
            index = index + (np.arange(x.shape[0]) * (height * width * channels))[:, None, None, None]
        return best, index.astype(index_type)

    return kernel


def _flat_index(argmax: Any, with_batch: bool, batch: int, each: int) -> Any:
    index = argmax.astype(np.int64)
    if not with_batch:
        index = index + (np.arange(batch) * each)[:, None, None, None]
    return index.reshape(-1)


@register_kernel("MaxPoolGradWithArgmax", pieces=True, T=REALS, Targmax=_ARGMAX)
def max_pool_grad_with_argmax(k: KernelBuild) -> Kernel:
    with_batch = k.attr("include_batch_in_index", False)

    def kernel(x: Any, grad: Any, argmax: Any) -> Any:
        if x.ndim != 4:
            raise InvalidArgumentError("tensor_in must be 4-dimensional")
        expect_shape("grad", grad.shape, argmax.shape)
        out = np.zeros(x.size, work_dtype(grad.dtype))
        index = _flat_index(argmax, with_batch, x.shape[0], prod(x.shape[1:]))
        if index.size and (index.min() < 0 or index.max() >= x.size):
            raise InvalidArgumentError(f"Invalid input backprop index: {index.max()}, {x.size}")
        update_at(np.add, out, index, grad.reshape(-1).astype(out.dtype))
        return out.reshape(x.shape).astype(grad.dtype, copy=False)

    return kernel


@register_kernel("MaxPoolGradGradWithArgmax", T=REALS, Targmax=_ARGMAX)
def max_pool_grad_grad_with_argmax(k: KernelBuild) -> Kernel:
    with_batch = k.attr("include_batch_in_index", False)

    def kernel(x: Any, grad: Any, argmax: Any) -> Any:
        expect_shape("grad", grad.shape, x.shape)
        index = _flat_index(argmax, with_batch, x.shape[0], prod(x.shape[1:]))
        if index.size and (index.min() < 0 or index.max() >= x.size):
            raise InvalidArgumentError(f"Invalid input backprop index: {index.max()}, {x.size}")
        return grad.reshape(-1)[index].reshape(argmax.shape)

    return kernel


def _counts(g: Geometry, dtype: np.dtype[Any]) -> Any:
    """Count the elements of the input each window covers: (*output, 1)."""
    total = np.ones((*g.output, 1), dtype)
    for axis, (size, stride, k, (before, _), count) in enumerate(zip(g.input, g.strides, g.kernel, g.pads, g.output)):
        begin = np.arange(count) * stride - before
        covered = np.minimum(begin + k, size) - np.maximum(begin, 0)
        shape = [1] * (len(g.output) + 1)
        shape[axis] = count
        total *= covered.reshape(shape).astype(dtype)
    return total


def avg_pool(x: Any, g: Geometry) -> Any:
    current = g.pad(np, x)
    for axis, size in enumerate(g.kernel):
        out = current[_along(g, axis, 0, x.ndim)].copy()
        for offset in range(1, size):
            out += current[_along(g, axis, offset, x.ndim)]
        current = out
    return current / _counts(g, x.dtype)


def avg_pool_grad(grad: Any, g: Geometry) -> Any:
    current = grad / _counts(g, grad.dtype)
    reach = g.reach
    for axis, size in enumerate(g.kernel):
        shape = list(current.shape)
        shape[axis + 1] = reach[axis]
        out = np.zeros(shape, grad.dtype)
        for offset in range(size):
            out[_along(g, axis, offset, grad.ndim)] += current
        current = out
    return current[(slice(None), *g.inner)]


def _average(spatial: int) -> Callable[[KernelBuild], Kernel]:
    def factory(k: KernelBuild) -> Kernel:
        window, depth = pool_window(k, spatial)
        dtype = k.dtype("T").np

        def kernel(x: Any) -> Any:
            if depth != 1:
                raise UnimplementedError("Non-spatial pooling is not yet supported. Volunteers? :)")
            x = _last(x, window)
            g = place(x, window, spatial)
            return _back(avg_pool(x.astype(work_dtype(dtype), copy=False), g).astype(dtype, copy=False), window)

        return kernel

    return factory


def _average_grad(spatial: int) -> Callable[[KernelBuild], Kernel]:
    def factory(k: KernelBuild) -> Kernel:
        window, depth = pool_window(k, spatial)
        dtype = k.dtype("T").np
        rank = spatial + 2

        def kernel(orig_input_shape: Any, grad: Any) -> Any:
            if orig_input_shape.shape != (rank,):
                raise InvalidArgumentError(f"out_backprop must be 1-dimensional and {rank} elements")
            if grad.ndim != rank:
                raise InvalidArgumentError(f"out_backprop must be {rank}-dimensional")
            if depth != 1:
                raise UnimplementedError("Non-spatial pooling is not yet supported. Volunteers? :)")
            shape = tuple(int(d) for d in orig_input_shape)
            if window.channels_first:
                shape = (shape[0], *shape[2:], shape[1])
            dy = _last(grad, window)
            g = window.geometry(shape[1:-1], window.ksize)
            expect_shape("grad", dy.shape, (shape[0], *g.output, shape[-1]))
            dx = avg_pool_grad(dy.astype(work_dtype(dtype), copy=False), g.trimmed())
            return _back(np.ascontiguousarray(dx.astype(dtype, copy=False)), window)

        return kernel

    return factory


register_kernel("AvgPool", promises=OF_SHAPES, T=FLOATS)(_average(2))
register_kernel("AvgPool3D", promises=OF_SHAPES, T=FLOATS)(_average(3))
register_kernel("AvgPoolGrad", T=FLOATS)(_average_grad(2))
register_kernel("AvgPool3DGrad", T=FLOATS)(_average_grad(3))


def _dilation_geometry(k: KernelBuild, x: Any, w: Any) -> Geometry:
    if x.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional{shape_text(x.shape)}")
    if w.ndim != 3:
        raise InvalidArgumentError(f"filter must be 3-dimensional: {shape_text(w.shape)}")
    if x.shape[-1] != w.shape[-1]:
        raise InvalidArgumentError(f"input and filter must have the same depth: {x.shape[-1]} vs {w.shape[-1]}")
    strides, rates = k.attr("strides"), k.attr("rates")
    window = Window(tuple(strides[1:3]), tuple(rates[1:3]), k.text_attr("padding"))
    return window.geometry(x.shape[1:3], w.shape[:2])


def _check_dilation(k: KernelBuild) -> None:
    for name, what in (("strides", "Strides"), ("rates", "Rates")):
        values = k.attr(name)
        if len(values) != 4:
            raise InvalidArgumentError(f"Sliding window stride field must specify 4 dimensions: {name}", k.node.name)
        if values[0] != 1 or values[3] != 1:
            raise UnimplementedError(f"{what} in the batch and depth dimensions are not supported.", k.node.name)
        if min(values) < 1:
            raise InvalidArgumentError(f"{what} must be positive.", k.node.name)


def _dilate(x: Any, w: Any, g: Geometry) -> tuple[Any, Any]:
    """Morphological dilation and the tap that won."""
    low = lowest(x.dtype)
    padded = g.pad(np, x, low)
    exists = g.pad(np, np.ones((1, *x.shape[1:-1], 1), bool), False)
    best = np.full((x.shape[0], *g.output, x.shape[-1]), low, x.dtype)
    winner = np.zeros(best.shape, np.int32)
    for i, tap in enumerate(_taps(g)):
        index = (slice(None), *g.tap(tap))
        with np.errstate(over="ignore"):
            values = padded[index] + w[tap]
        better = (values > best) & exists[index]
        np.copyto(best, values, where=better)
        winner[better] = i
    return best, winner


@register_kernel("Dilation2D", T=REALS)
def dilation_2d(k: KernelBuild) -> Kernel:
    _check_dilation(k)
    return lambda x, w: _dilate(x, w, _dilation_geometry(k, x, w))[0]


@register_kernel("Dilation2DBackpropInput", T=REALS)
def dilation_2d_backprop_input(k: KernelBuild) -> Kernel:
    _check_dilation(k)

    def kernel(x: Any, w: Any, grad: Any) -> Any:
        g = _dilation_geometry(k, x, w)
        _, winner = _dilate(x, w, g)
        expect_shape("out_backprop", grad.shape, winner.shape)
        return _spread(grad, winner, g, x.shape)

    return kernel


@register_kernel("Dilation2DBackpropFilter", T=REALS)
def dilation_2d_backprop_filter(k: KernelBuild) -> Kernel:
    _check_dilation(k)

    def kernel(x: Any, w: Any, grad: Any) -> Any:
        g = _dilation_geometry(k, x, w)
        _, winner = _dilate(x, w, g)
        expect_shape("out_backprop", grad.shape, winner.shape)
        out = np.zeros(w.shape, work_dtype(grad.dtype))
        for i, tap in enumerate(_taps(g)):
            out[tap] = np.where(winner == i, grad, grad.dtype.type(0)).sum(axis=(0, 1, 2), dtype=out.dtype)
        return out.astype(grad.dtype, copy=False)

    return kernel
