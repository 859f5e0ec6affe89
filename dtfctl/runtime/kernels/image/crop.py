"""Parts of images: CropAndResize with its gradients, RandomCrop, ExtractGlimpse, projective transforms."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, OutOfRangeError
from dtfctl.runtime.kernels.array.common import scalar
from dtfctl.runtime.kernels.pieces import each
from dtfctl.runtime.kernels.random.common import generator_of
from dtfctl.runtime.kernels.random.philox import WordStream
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text

_F = np.float32
_IMAGES = (
    dtypes.uint8,
    dtypes.uint16,
    dtypes.int8,
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
    dtypes.float16,
    dtypes.float32,
    dtypes.float64,
)


def _check_boxes(boxes: Any, box_ind: Any, batch: int) -> None:
    if box_ind.size == 0 and boxes.size == 0:
        return
    if boxes.ndim != 2:
        raise InvalidArgumentError(f"boxes must be 2-D, got: {shape_text(boxes.shape)}")
    if boxes.shape[1] != 4:
        raise InvalidArgumentError("boxes must have 4 columns")
    if box_ind.ndim != 1:
        raise InvalidArgumentError(f"box_index must be 1-D{shape_text(box_ind.shape)}")
    if box_ind.shape[0] != boxes.shape[0]:
        raise InvalidArgumentError("box_index has incompatible shape")
    if box_ind.size and (box_ind.min() < 0 or box_ind.max() >= batch):
        raise OutOfRangeError("box_index has values outside [0, batch_size)")


def _positions(low: Any, high: Any, size: int, count: int) -> Any:
    """Sampling positions (boxes, count) in pixels along one dimension of `size`."""
    if count > 1:
        step = (high - low) * _F(size - 1) / _F(count - 1)
        return low[:, None] * _F(size - 1) + np.arange(count, dtype=_F) * step[:, None]
    return (_F(0.5) * (low + high) * _F(size - 1))[:, None]


class _Samples:
    """Where the crops of some boxes take their pixels."""

    def __init__(self, boxes: Any, image_size: tuple[int, int], crop: tuple[int, int]) -> None:
        self.y = _positions(boxes[:, 0], boxes[:, 2], image_size[0], crop[0])
        self.x = _positions(boxes[:, 1], boxes[:, 3], image_size[1], crop[1])
        with np.errstate(invalid="ignore"):
            ok_y = (self.y >= 0) & (self.y <= image_size[0] - 1)
            ok_x = (self.x >= 0) & (self.x <= image_size[1] - 1)
        self.inside = ok_y[:, :, None] & ok_x[:, None, :]
        self.y, self.x = np.where(ok_y, self.y, 0), np.where(ok_x, self.x, 0)
        self.top, self.left = np.floor(self.y).astype(int)[:, :, None], np.floor(self.x).astype(int)[:, None, :]
        self.bottom, self.right = np.ceil(self.y).astype(int)[:, :, None], np.ceil(self.x).astype(int)[:, None, :]
        self.fy = (self.y[:, :, None] - self.top).astype(_F)[..., None]
        self.fx = (self.x[:, None, :] - self.left).astype(_F)[..., None]

    def nearest(self) -> tuple[Any, Any]:
        rows = np.floor(self.y + _F(0.5)).astype(int)[:, :, None]
        return rows, np.floor(self.x + _F(0.5)).astype(int)[:, None, :]


@register_kernel("CropAndResize", T=_IMAGES)
def crop_and_resize(k: KernelBuild) -> Kernel:
    bilinear, outside = k.text_attr("method", "bilinear") == "bilinear", _F(k.attr("extrapolation_value", 0.0))

    def kernel(image: Any, boxes: Any, box_ind: Any, crop_size: Any) -> Any:
        if image.ndim != 4:
            raise InvalidArgumentError(f"input image must be 4-D{shape_text(image.shape)}")
        if image.shape[1] <= 0 or image.shape[2] <= 0:
            raise InvalidArgumentError("image dimensions must be positive")
        if crop_size.ndim != 1 or crop_size.size != 2:
            raise InvalidArgumentError(f"crop_size must have two elements{shape_text(crop_size.shape)}")
        height, width = (int(s) for s in crop_size)
        if height <= 0 or width <= 0:
            raise InvalidArgumentError("crop dimensions must be positive")
        _check_boxes(boxes, box_ind, image.shape[0])
        if not boxes.size:
            return np.zeros((0, height, width, image.shape[3]), _F)
        if not np.isfinite(boxes).all():
            raise InvalidArgumentError("Boxes contains at least one element that is not finite")
        s = _Samples(boxes, image.shape[1:3], (height, width))
        at = box_ind[:, None, None]
        if bilinear:
            top_left = image[at, s.top, s.left].astype(_F)
            top = top_left + (image[at, s.top, s.right].astype(_F) - top_left) * s.fx
            bottom_left = image[at, s.bottom, s.left].astype(_F)
            bottom = bottom_left + (image[at, s.bottom, s.right].astype(_F) - bottom_left) * s.fx
            crops = top + (bottom - top) * s.fy
        else:
            rows, columns = s.nearest()
            crops = image[at, rows, columns].astype(_F)
        crops[~s.inside] = outside
        return crops

    return kernel


def _add_at(out: Any, at: Any, rows: Any, columns: Any, values: Any) -> None:
    """Add pixels at places of which several may be one."""
    for box in each(range(len(values))):
        np.add.at(out, (at[box], rows[box], columns[box]), values[box])


@register_kernel("CropAndResizeGradImage", pieces=True, T=(dtypes.float16, dtypes.float32, dtypes.float64))
def crop_and_resize_grad_image(k: KernelBuild) -> Kernel:
    bilinear, dtype = k.text_attr("method", "bilinear") == "bilinear", k.dtype("T").np

    def kernel(grads: Any, boxes: Any, box_ind: Any, image_size: Any) -> Any:
        if grads.ndim != 4:
            raise InvalidArgumentError(f"grads image must be 4-D{shape_text(grads.shape)}")
        if grads.shape[1] <= 0 or grads.shape[2] <= 0:
            raise InvalidArgumentError("grads dimensions must be positive")
        if image_size.shape != (4,):
            raise InvalidArgumentError(f"image_size must have 4 elements{shape_text(image_size.shape)}")
        shape = tuple(int(s) for s in image_size)
        if shape[1] <= 0 or shape[2] <= 0:
            raise InvalidArgumentError("image dimensions must be positive")
        if shape[3] != grads.shape[3]:
            raise InvalidArgumentError("image_size and grads are incompatible")
        if boxes.shape[0] != grads.shape[0]:
            raise InvalidArgumentError("boxes and grads have incompatible shape")
        _check_boxes(boxes, box_ind, shape[0])
        out = np.zeros(shape, np.float64 if dtype == np.float64 else _F)
        if not grads.size:
            return out.astype(dtype)
        s = _Samples(boxes, (shape[1], shape[2]), grads.shape[1:3])
        grads = np.where(s.inside[..., None], grads, 0).astype(out.dtype)
        at = box_ind[:, None, None]
        if bilinear:
            for rows, weight_y in ((s.top, 1 - s.fy), (s.bottom, s.fy)):
                for columns, weight_x in ((s.left, 1 - s.fx), (s.right, s.fx)):
                    _add_at(out, at, rows, columns, grads * (weight_y * weight_x))
        else:
            rows, columns = s.nearest()
            _add_at(out, at, rows, columns, grads)
        return out.astype(dtype, copy=False)

    return kernel


@register_kernel("CropAndResizeGradBoxes", T=_IMAGES)
def crop_and_resize_grad_boxes(k: KernelBuild) -> Kernel:
    def kernel(grads: Any, image: Any, boxes: Any, box_ind: Any) -> Any:
        if grads.ndim != 4 or image.ndim != 4:
            raise InvalidArgumentError(f"grads image must be 4-D{shape_text(grads.shape)}")
        if image.shape[3] != grads.shape[3]:
            raise InvalidArgumentError("image, grads depth differ")
        if boxes.shape[0] != grads.shape[0]:
            raise InvalidArgumentError("boxes and grads have incompatible shape")
        _check_boxes(boxes, box_ind, image.shape[0])
        if not grads.size:
            return np.zeros(boxes.shape, _F)
        (height, width), (crop_h, crop_w) = image.shape[1:3], grads.shape[1:3]
        s = _Samples(boxes, (height, width), (crop_h, crop_w))
        at = box_ind[:, None, None]
        tl, tr = image[at, s.top, s.left].astype(_F), image[at, s.top, s.right].astype(_F)
        bl, br = image[at, s.bottom, s.left].astype(_F), image[at, s.bottom, s.right].astype(_F)
        grads = np.where(s.inside[..., None], grads, 0)
        by_y = (((1 - s.fx) * (bl - tl) + s.fx * (br - tr)) * grads).sum(axis=(2, 3))
        by_x = (((1 - s.fy) * (tr - tl) + s.fy * (br - bl)) * grads).sum(axis=(1, 3))
        out = np.empty((boxes.shape[0], 4), _F)
        for column, total, size, count in ((0, by_y, height, crop_h), (1, by_x, width, crop_w)):
            if count > 1:
                share = np.arange(count, dtype=_F) * _F((size - 1) / (count - 1))
                out[:, column] = total @ (_F(size - 1) - share)
                out[:, column + 2] = total @ share
            else:
                out[:, column] = out[:, column + 2] = total[:, 0] * _F(0.5 * (size - 1))
        return out

    return kernel


@register_kernel("RandomCrop")
def random_crop(k: KernelBuild) -> Kernel:
    generator = generator_of(k)

    def kernel(image: Any, size: Any) -> Any:
        if image.ndim != 3:
            raise InvalidArgumentError(f"input must be 3-dimensional{shape_text(image.shape)}")
        if size.shape != (2,):
            raise InvalidArgumentError(f"shape_t must have two elements{shape_text(size.shape)}")
        height, width = (int(s) for s in size)
        if height > image.shape[0] or width > image.shape[1]:
            raise InvalidArgumentError("Image is smaller than the crop")
        if (height, width) == image.shape[:2]:
            return image
        words = WordStream(generator.reserve_words(2))
        top = words.next() % (image.shape[0] - height + 1) if image.shape[0] > height else 0
        left = words.next() % (image.shape[1] - width + 1) if image.shape[1] > width else 0
        return image[top : top + height, left : left + width]

    return kernel


def _glimpse_start(offset: float, size: int, window: int, normalized: bool, centered: bool, first: bool) -> int:
    """Find a window's start on one axis. Only the first version moves unnormalized points to the window's middle."""
    if normalized:
        offset *= size
    if first or (normalized and centered):
        if centered:
            offset = (offset + size) / 2
        offset -= window / 2
    elif centered:
        offset += size / 2
    return int(offset)


@register_kernel(("ExtractGlimpse", "ExtractGlimpseV2"))
def extract_glimpse(k: KernelBuild) -> Kernel:
    """Windows around given points; what lies outside the image is noise or zero."""
    centered, normalized = k.attr("centered", True), k.attr("normalized", True)
    noise = k.text_attr("noise", "uniform")
    uniform = bool(k.attr("uniform_noise", True))
    if uniform and noise not in ("", "uniform"):
        raise InvalidArgumentError("The uniform_noise and noise could not be specified at the same time", k.node.name)
    noise = noise or ("uniform" if uniform else "gaussian")
    if noise not in ("uniform", "gaussian", "zero"):
        raise InvalidArgumentError(f"The noise could only be uniform, gaussian, or zero, got {noise}", k.node.name)
    first_version = k.node.op == "ExtractGlimpse"
    generator = np.random.default_rng()

    def kernel(x: Any, size: Any, offsets: Any) -> Any:
        if x.ndim != 4:
            raise InvalidArgumentError(f"input must be a vector of size 4, got shape {shape_text(x.shape)}")
        if size.shape != (2,):
            raise InvalidArgumentError(f"Shape of size should be [2], got {shape_text(size.shape)}")
        if offsets.ndim != 2 or offsets.shape != (x.shape[0], 2):
            raise InvalidArgumentError(f"offsets should be of shape [batch, 2], got {shape_text(offsets.shape)}")
        height, width = (int(s) for s in size)
        if height <= 0 or width <= 0:
            raise InvalidArgumentError("output_height and output_width must be positive")
        out = np.zeros((x.shape[0], height, width, x.shape[3]), _F)
        inside = np.zeros((x.shape[0], height, width), bool)
        for b in range(x.shape[0]):
            top = _glimpse_start(float(offsets[b, 0]), x.shape[1], height, normalized, centered, first_version)
            left = _glimpse_start(float(offsets[b, 1]), x.shape[2], width, normalized, centered, first_version)
            r0, r1 = max(top, 0), min(top + height, x.shape[1])
            c0, c1 = max(left, 0), min(left + width, x.shape[2])
            if r0 < r1 and c0 < c1:
                out[b, r0 - top : r1 - top, c0 - left : c1 - left] = x[b, r0:r1, c0:c1]
                inside[b, r0 - top : r1 - top, c0 - left : c1 - left] = True
        if not x.size:
            return out
        if noise == "uniform":
            low, high = x.min((1, 2, 3), keepdims=True), x.max((1, 2, 3), keepdims=True)
            fill = np.asarray(low + (high - low) * generator.random(out.shape, _F), _F)
        elif noise == "gaussian":
            mean, sigma = x.mean((1, 2), keepdims=True), x.std((1, 2), keepdims=True)
            fill = np.asarray(mean + sigma * generator.standard_normal(out.shape, _F), _F)
            fill = np.clip(fill, x.min((1, 2), keepdims=True), x.max((1, 2), keepdims=True))
        else:
            return out
        return np.where(inside[..., None], out, fill)

    return kernel


_TRANSFORMED = (
    dtypes.uint8,
    dtypes.int32,
    dtypes.int64,
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float32,
    dtypes.float64,
)


def _fill_coordinates(coordinate: Any, size: int, mode: str) -> Any:
    """Fold coordinates outside [0, size) back by the fill mode."""
    if mode in ("CONSTANT", ""):
        return coordinate
    if mode == "NEAREST":
        return np.clip(coordinate, 0, size - 1)
    if mode not in ("REFLECT", "WRAP"):
        raise InvalidArgumentError(f"Unknown fill mode {mode}")
    if size <= 1:
        return np.zeros_like(coordinate)
    below, above = coordinate < 0, coordinate > size - 1
    if mode == "REFLECT":
        period = 2 * size
        low = period * np.trunc(-coordinate / period) + coordinate
        low = np.where(low < -size, low + period, -low - 1)
        high = coordinate - period * np.trunc(coordinate / period)
        high = np.where(high >= size, period - high - 1, high)
    else:
        low = coordinate + size * (np.trunc(-coordinate / (size - 1)) + 1)
        high = coordinate - size * np.trunc(coordinate / (size - 1))
    return np.clip(np.where(below, low, np.where(above, high, coordinate)), 0, size - 1)


def _round_away(x: Any) -> Any:
    """C's round: halves go away from zero."""
    return np.trunc(x + np.copysign(_F(0.5), x))


def _projective(k: KernelBuild, images: Any, transforms: Any, output_shape: Any, fill: Any) -> Any:
    if images.ndim != 4:
        raise InvalidArgumentError("Input images must have rank 4")
    if transforms.ndim != 2 or transforms.shape[0] not in (1, images.shape[0]) or transforms.shape[1] != 8:
        raise InvalidArgumentError(
            "Input transform should be num_images x 8 or 1 x 8, got " + shape_text(transforms.shape)
        )
    if output_shape.shape != (2,):
        raise InvalidArgumentError(f"output shape must have two elements{shape_text(output_shape.shape)}")
    height, width = (int(s) for s in output_shape)
    if height <= 0 or width <= 0:
        raise InvalidArgumentError("output dimensions must be positive")
    mode = k.text_attr("fill_mode", "CONSTANT")
    t = transforms.astype(_F)[:, :, None, None]
    x, y = np.arange(width, dtype=_F)[None, None, :], np.arange(height, dtype=_F)[None, :, None]
    projection = t[:, 6] * x + t[:, 7] * y + 1
    with np.errstate(all="ignore"):
        in_x = (t[:, 0] * x + t[:, 1] * y + t[:, 2]) / projection
        in_y = (t[:, 3] * x + t[:, 4] * y + t[:, 5]) / projection
    lost = np.broadcast_to(projection == 0, (transforms.shape[0], height, width))
    in_x = _fill_coordinates(in_x, images.shape[2], mode)
    in_y = _fill_coordinates(in_y, images.shape[1], mode)
    batch = np.arange(images.shape[0])[:, None, None]
    in_x, in_y = (np.broadcast_to(v, (images.shape[0], height, width)) for v in (in_x, in_y))
    wide: Any = np.float64 if images.dtype == np.float64 else _F

    def read(rows: Any, columns: Any) -> Any:
        with np.errstate(invalid="ignore"):
            inside = (rows >= 0) & (rows < images.shape[1]) & (columns >= 0) & (columns < images.shape[2])
            at = np.where(inside, rows, 0).astype(np.int64), np.where(inside, columns, 0).astype(np.int64)
        return np.where(inside[..., None], images[batch, at[0], at[1]].astype(wide), wide(fill))

    if k.text_attr("interpolation") == "NEAREST":
        out = read(_round_away(in_y), _round_away(in_x))
    else:
        top, left = np.floor(in_y), np.floor(in_x)
        fy, fx = (in_y - top)[..., None].astype(wide), (in_x - left)[..., None].astype(wide)
        upper = (1 - fx) * read(top, left) + fx * read(top, left + 1)
        lower = (1 - fx) * read(top + 1, left) + fx * read(top + 1, left + 1)
        out = (1 - fy) * upper + fy * lower
    out = np.where(np.broadcast_to(lost, out.shape[:3])[..., None], wide(fill), out)
    return out.astype(images.dtype)


@register_kernel("ImageProjectiveTransformV2", dtype=_TRANSFORMED)
def image_projective_transform_v2(k: KernelBuild) -> Kernel:
    return lambda images, transforms, output_shape: _projective(k, images, transforms, output_shape, 0.0)


@register_kernel("ImageProjectiveTransformV3", dtype=_TRANSFORMED)
def image_projective_transform_v3(k: KernelBuild) -> Kernel:
    return lambda images, transforms, output_shape, fill: _projective(
        k, images, transforms, output_shape, scalar(fill, "fill_value")
    )
