"""Image resizing (TensorFlow's resize_*_op, scale_and_translate_op).

Every method but nearest neighbour is linear and separable: a matrix of weights along the height and one along the
width. Gradients are the transposed matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import check_size
from dtfctl.runtime.kernels.pieces import each
from dtfctl.runtime.kernels.registry import FLOATS, Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text

_F = np.float32
_IMAGES = (
    dtypes.int8,
    dtypes.uint8,
    dtypes.int16,
    dtypes.uint16,
    dtypes.int32,
    dtypes.int64,
    dtypes.float16,
    dtypes.float32,
    dtypes.float64,
    dtypes.bfloat16,
)
_TABLE = 1024


def scale_of(in_size: int, out_size: int, align_corners: bool) -> np.float32:
    """Input pixels per output pixel."""
    if align_corners and out_size > 1:
        return _F(in_size - 1) / _F(out_size - 1)
    return _F(in_size) / _F(out_size)


def _sources(in_size: int, out_size: int, align_corners: bool, half_pixel: bool) -> Any:
    """Compute where each output pixel lies in the input, float32."""
    scale = scale_of(in_size, out_size, align_corners)
    x = np.arange(out_size, dtype=_F)
    return (x + _F(0.5)) * scale - _F(0.5) if half_pixel else x * scale


@lru_cache(maxsize=128)
def _linear(in_size: int, out_size: int, align_corners: bool, half_pixel: bool) -> tuple[Any, Any, Any]:
    """Lower and upper neighbour and the fraction between them for each output pixel."""
    x = _sources(in_size, out_size, align_corners, half_pixel)
    floor = np.floor(x)
    lower = np.maximum(floor.astype(np.int64), 0)
    upper = np.minimum(np.ceil(x).astype(np.int64), in_size - 1)
    return lower, upper, x - floor


def _bilinear_matrix(in_size: int, out_size: int, align_corners: bool, half_pixel: bool) -> Any:
    lower, upper, fraction = _linear(in_size, out_size, align_corners, half_pixel)
    matrix = np.zeros((out_size, in_size), _F)
    rows = np.arange(out_size)
    matrix[rows, lower] += 1 - fraction
    matrix[rows, upper] += fraction
    return matrix


@lru_cache(maxsize=2)
def _cubic_table(a: float) -> Any:
    """Weights of a pixel at distance i / 1024 and 1 + i / 1024: (1025, 2) float32."""
    x = (np.arange(_TABLE + 1) / _F(_TABLE)).astype(_F)
    near = ((_F(a) + 2) * x - (_F(a) + 3)) * x * x + 1
    x = x + _F(1)
    far = ((_F(a) * x - 5 * _F(a)) * x + 8 * _F(a)) * x - 4 * _F(a)
    return np.stack([near, far], axis=1).astype(_F)


@lru_cache(maxsize=128)
def _cubic_matrix(in_size: int, out_size: int, align_corners: bool, half_pixel: bool) -> Any:
    x = _sources(in_size, out_size, align_corners, half_pixel)
    base = np.floor(x).astype(np.int64)
    offset = np.rint((x - base.astype(_F)) * _F(_TABLE)).astype(np.int64)
    table = _cubic_table(-0.5 if half_pixel else -0.75)
    weights = np.stack(
        [table[offset, 1], table[offset, 0], table[_TABLE - offset, 0], table[_TABLE - offset, 1]], axis=1
    )
    wanted = base[:, None] + np.arange(-1, 3)
    index = np.clip(wanted, 0, in_size - 1)
    if half_pixel:
        # Keys cubic leaves out what lies beyond the border, and weighs the rest anew.
        weights = np.where(index == wanted, weights, 0).astype(_F)
        total = weights.sum(axis=1, keepdims=True)
        weights = np.where(np.abs(total) >= 1000 * np.finfo(_F).tiny, weights / total, weights).astype(_F)
    matrix = np.zeros((out_size, in_size), _F)
    np.add.at(matrix, (np.arange(out_size)[:, None], index), weights)
    return matrix


@lru_cache(maxsize=128)
def _area_matrix(in_size: int, out_size: int, align_corners: bool) -> Any:
    scale = scale_of(in_size, out_size, align_corners)
    matrix = np.zeros((out_size, in_size), _F)
    for y in range(out_size):
        begin, end = _F(y) * scale, _F(y + 1) * scale
        for i in range(math.floor(begin), math.ceil(end)):
            if i < begin:
                part = scale if i + 1 > end else i + 1 - begin
            else:
                part = end - i if i + 1 > end else _F(1)
            matrix[y, min(max(i, 0), in_size - 1)] += part
    # With align_corners an input of one pixel has scale 0: every output pixel is that one.
    return matrix / scale if scale > 0 else np.eye(1, in_size, dtype=_F).repeat(out_size, axis=0)


def _apply(rows: Any, columns: Any, images: Any) -> Any:
    """rows (H', H), columns (W', W), images (N, H, W, C) -> (N, H', W', C)."""
    n, height, width, depth = images.shape
    first = np.matmul(rows, images.reshape(n, height, width * depth)).reshape(n, rows.shape[0], width, depth)
    return np.matmul(columns, first)


def checked_size(images: Any, size: Any) -> tuple[int, int]:
    """Height and width that images are to have.

    Raises:
        InvalidArgumentError: they are no such sizes, or no tensor can be as large.
    """
    if images.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional{shape_text(images.shape)}")
    if size.ndim != 1:
        raise InvalidArgumentError(f"shape_t must be 1-dimensional{shape_text(size.shape)}")
    if size.size != 2:
        raise InvalidArgumentError(f"shape_t must have two elements{shape_text(size.shape)}")
    height, width = (int(s) for s in size)
    if height <= 0 or width <= 0:
        raise InvalidArgumentError("output dimensions must be positive")
    if images.shape[1] <= 0 or images.shape[2] <= 0:
        raise InvalidArgumentError("input image must be of non-zero size")
    check_size((images.shape[0], height, width, images.shape[3]))
    return height, width


def _check_attributes(k: KernelBuild) -> tuple[bool, bool]:
    align, half = k.attr("align_corners", False), k.attr("half_pixel_centers", False)
    if align and half:
        raise InvalidArgumentError("If half_pixel_centers is True, align_corners must be False.", k.node.name)
    return align, half


def resize_bilinear(images: Any, height: int, width: int, align: bool, half: bool) -> Any:
    """float32 (N, height, width, C)."""
    left, right, fraction_x = _linear(images.shape[2], width, align, half)
    top, bottom, fraction_y = _linear(images.shape[1], height, align, half)
    wide = images.astype(_F, copy=False)
    base = wide[:, :, left]
    across = base + (wide[:, :, right] - base) * fraction_x[:, None]
    base = across[:, top]
    return base + (across[:, bottom] - base) * fraction_y[:, None, None]


@register_kernel("ResizeBilinear", T=_IMAGES)
def resize_bilinear_op(k: KernelBuild) -> Kernel:
    align, half = _check_attributes(k)
    return lambda images, size: resize_bilinear(images, *checked_size(images, size), align, half)


@register_kernel("ResizeBicubic", T=_IMAGES)
def resize_bicubic(k: KernelBuild) -> Kernel:
    align, half = _check_attributes(k)

    def kernel(images: Any, size: Any) -> Any:
        height, width = checked_size(images, size)
        rows = _cubic_matrix(images.shape[1], height, align, half)
        columns = _cubic_matrix(images.shape[2], width, align, half)
        return _apply(rows, columns, images.astype(_F, copy=False))

    return kernel


@register_kernel("ResizeArea", T=_IMAGES)
def resize_area(k: KernelBuild) -> Kernel:
    align = k.attr("align_corners", False)

    def kernel(images: Any, size: Any) -> Any:
        height, width = checked_size(images, size)
        rows = _area_matrix(images.shape[1], height, align)
        columns = _area_matrix(images.shape[2], width, align)
        return _apply(rows, columns, images.astype(_F, copy=False))

    return kernel


@lru_cache(maxsize=128)
def _nearest(in_size: int, out_size: int, align: bool, half: bool) -> Any:
    scale = scale_of(in_size, out_size, align)
    x = np.arange(out_size, dtype=_F)
    if half:
        source = np.floor((x + _F(0.5)) * scale)
    elif align:
        # Halves are rounded away from zero, as C's roundf does.
        source = np.floor(x * scale + _F(0.5))
    else:
        source = np.floor(x * scale)
    return np.clip(source.astype(np.int64), 0, in_size - 1)


@register_kernel("ResizeNearestNeighbor", T=_IMAGES)
def resize_nearest(k: KernelBuild) -> Kernel:
    align, half = _check_attributes(k)

    def kernel(images: Any, size: Any) -> Any:
        height, width = checked_size(images, size)
        rows = _nearest(images.shape[1], height, align, half)
        columns = _nearest(images.shape[2], width, align, half)
        return images[:, rows[:, None], columns]

    return kernel


@register_kernel("ResizeNearestNeighborGrad", pieces=True, T=(*FLOATS, dtypes.int8, dtypes.uint8, dtypes.int32))
def resize_nearest_grad(k: KernelBuild) -> Kernel:
    align, half = _check_attributes(k)
    dtype = k.dtype("T").np
    wide = np.dtype(_F) if dtype.kind not in "iu" and dtype.itemsize == 2 else dtype

    def kernel(grads: Any, size: Any) -> Any:
        height, width = checked_size(grads, size)
        n, out_height, out_width, depth = grads.shape
        rows = _nearest(height, out_height, align, half)
        columns = _nearest(width, out_width, align, half)
        out = np.zeros((n, height, width, depth), wide)
        grads = grads.astype(wide, copy=False)
        for image in range(n):
            for at, row in enumerate(each(rows)):
                np.add.at(out[image, row], columns, grads[image, at])
        return out.astype(dtype, copy=False)

    return kernel


def _linear_grad(k: KernelBuild, matrix: Callable[[int, int, bool, bool], Any]) -> Kernel:
    align, half = _check_attributes(k)
    dtype = k.dtype("T").np

    def kernel(grads: Any, original: Any) -> Any:
        if grads.ndim != 4 or original.ndim != 4:
            raise InvalidArgumentError(f"input_grad must be 4-dimensional{shape_text(grads.shape)}")
        if original.shape[0] != grads.shape[0] or original.shape[3] != grads.shape[3]:
            raise InvalidArgumentError("grads and original_image must have the same batch size and depth")
        if 0 in grads.shape or 0 in original.shape:
            return np.zeros(original.shape, dtype)
        rows = matrix(original.shape[1], grads.shape[1], align, half)
        columns = matrix(original.shape[2], grads.shape[2], align, half)
        wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(_F)
        out = _apply(rows.T.astype(wide), columns.T.astype(wide), grads.astype(wide, copy=False))
        return out.astype(dtype, copy=False)

    return kernel


@register_kernel("ResizeBilinearGrad", T=FLOATS)
def resize_bilinear_grad(k: KernelBuild) -> Kernel:
    return _linear_grad(k, _bilinear_matrix)


@register_kernel("ResizeBicubicGrad", T=(dtypes.float32, dtypes.float64))
def resize_bicubic_grad(k: KernelBuild) -> Kernel:
    return _linear_grad(k, _cubic_matrix)


def _lanczos(radius: float) -> Callable[[Any], Any]:
    def weight(x: Any) -> Any:
        with np.errstate(all="ignore"):
            value = radius * np.sin(np.pi * x) * np.sin(np.pi * x / radius) / (np.pi * np.pi * x * x)
        return np.where(x > radius, 0, np.where(x <= 1e-3, 1, value))

    return weight


def _gaussian(x: Any) -> Any:
    return np.where(x >= 1.5, 0, np.exp(-x * x / (2 * 0.5 * 0.5)))


def _box(x: Any) -> Any:
    return np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))


def _triangle(x: Any) -> Any:
    return np.maximum(0, 1 - x)


def _keys_cubic(x: Any) -> Any:
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


def _mitchell_cubic(x: Any) -> Any:
    near = ((7 * x - 12) * x * x + 16.0 / 3) / 6
    far = (((-7.0 / 3 * x + 12) * x - 20) * x + 32.0 / 3) / 6
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


_KERNELS: dict[str, tuple[float, Callable[[Any], Any]]] = {
    "lanczos1": (1.0, _lanczos(1.0)),
    "lanczos3": (3.0, _lanczos(3.0)),
    "lanczos5": (5.0, _lanczos(5.0)),
    "gaussian": (1.5, _gaussian),
    "box": (1.0, _box),
    "triangle": (1.0, _triangle),
    "keyscubic": (2.0, _keys_cubic),
    "mitchellcubic": (2.0, _mitchell_cubic),
}


def _span_matrix(kind: str, in_size: int, out_size: int, scale: float, translate: float, antialias: bool) -> Any:
    """Weights of a resampling filter, normalized for every output pixel; empty rows outside the input."""
    radius, function = _KERNELS[kind]
    inverse = _F(1) / _F(scale)
    kernel_scale = max(inverse, _F(1)) if antialias else _F(1)
    sample = (np.arange(out_size, dtype=_F) + _F(0.5)) * inverse - inverse * _F(translate)
    reach = _F(radius) * kernel_scale
    start = np.clip(np.ceil(sample - reach - _F(0.5)), 0, in_size - 1)
    end = np.clip(np.floor(sample + reach - _F(0.5)), 0, in_size - 1)
    source = np.arange(in_size, dtype=_F)
    position = source + _F(0.5) - sample[:, None]
    weights = function(np.abs(position / kernel_scale)).astype(_F)
    weights[(source < start[:, None]) | (source > end[:, None])] = 0
    weights[(sample < 0) | (sample > in_size)] = 0
    total = weights.sum(axis=1, keepdims=True)
    usable = np.abs(total) >= 1000 * np.finfo(_F).tiny
    return np.where(usable, weights / np.where(usable, total, 1), 0).astype(_F)


def _spans(k: KernelBuild, images: Any, size: tuple[int, int], scale: Any, translation: Any) -> tuple[Any, Any]:
    kind = k.text_attr("kernel_type", "lanczos3")
    if kind not in _KERNELS:
        raise InvalidArgumentError(f"Unrecognized kernel type: {kind}", k.node.name)
    if scale.shape != (2,) or translation.shape != (2,):
        raise InvalidArgumentError("scale and translation must be vectors of two elements")
    if not (scale > 0).all():
        raise InvalidArgumentError("Scale must be greater than zero.")
    antialias = k.attr("antialias", True)
    return (
        _span_matrix(kind, images.shape[1], size[0], float(scale[0]), float(translation[0]), antialias),
        _span_matrix(kind, images.shape[2], size[1], float(scale[1]), float(translation[1]), antialias),
    )


@register_kernel("ScaleAndTranslate", T=_IMAGES)
def scale_and_translate(k: KernelBuild) -> Kernel:
    def kernel(images: Any, size: Any, scale: Any, translation: Any) -> Any:
        wanted = checked_size(images, size)
        rows, columns = _spans(k, images, wanted, scale, translation)
        return _apply(rows, columns, images.astype(_F, copy=False))

    return kernel


@register_kernel("ScaleAndTranslateGrad", T=(dtypes.float32,))
def scale_and_translate_grad(k: KernelBuild) -> Kernel:
    def kernel(grads: Any, original: Any, scale: Any, translation: Any) -> Any:
        if grads.ndim != 4 or original.ndim != 4:
            raise InvalidArgumentError(f"input_grad must be 4-dimensional{shape_text(grads.shape)}")
        rows, columns = _spans(k, original, grads.shape[1:3], scale, translation)
        return _apply(np.ascontiguousarray(rows.T), np.ascontiguousarray(columns.T), grads)

    return kernel
