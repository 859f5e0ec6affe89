"""Random parts of images that still show enough of an object: the SampleDistortedBoundingBox ops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.random.candidates import exact_uniform
from dtfctl.runtime.kernels.random.common import generator_of, stateless_seed
from dtfctl.runtime.kernels.random.philox import Philox, WordStream
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text

_F = np.float32
_SIZES = (dtypes.uint8, dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64)
_WORDS_PER_ATTEMPT = 4
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True)
class Rectangle:
    """Whole pixels: [top, bottom) x [left, right)."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def area(self) -> int:
        return (self.right - self.left) * (self.bottom - self.top)

    def shared_area(self, other: Rectangle) -> int:
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(width, 0) * max(height, 0)


@dataclass(frozen=True)
class Limits:
    """What a part must be like; the attributes of the ops, checked."""

    ratios: tuple[float, float]
    areas: tuple[float, float]
    attempts: int
    whole_without_boxes: bool

    @classmethod
    def of(cls, k: KernelBuild) -> Limits:
        """Read an op's attributes, and check them.

        Raises:
            InvalidArgumentError: an attribute makes no sense.
        """
        ratios, areas, attempts = k.attr("aspect_ratio_range"), k.attr("area_range"), k.attr("max_attempts")
        if len(ratios) != 2:
            raise InvalidArgumentError("Aspect ratio range field must specify 2 dimensions")
        if min(ratios) <= 0:
            raise InvalidArgumentError(f"Aspect ratio range must be non-negative: [{ratios[0]:g}, {ratios[1]:g}]")
        if len(areas) != 2:
            raise InvalidArgumentError("Area range field must specify 2 dimensions")
        if min(areas) <= 0:
            raise InvalidArgumentError(f"Area range must be non-negative: [{areas[0]:g}, {areas[1]:g}]")
        if max(areas) > 1:
            raise InvalidArgumentError(
                f"Area range must be less then or equal to 1.0: [{areas[0]:g}, {areas[1]:g}]",
            )
        if attempts <= 0:
            raise InvalidArgumentError(f"Max attempts must be non-negative: {attempts}")
        return cls(tuple(ratios), tuple(areas), attempts, k.attr("use_image_if_no_bounding_boxes"))


def _rounded(value: Any) -> int:
    """Round to the nearest integer, halves to the even one."""
    return int(np.rint(_F(value)))


def _crop(width: int, height: int, areas: tuple[float, float], ratio: Any, words: WordStream) -> Rectangle | None:
    """Draw a random rectangle within `width` x `height` whose width is `ratio` times its height.

    Its height is uniform between the least and the greatest that the areas allow, then its place is.
    None when rounding leaves no such rectangle.
    """
    least, most = (_F(_F(_F(a) * _F(width)) * _F(height)) for a in areas)
    if ratio <= 0 or width <= 0 or height <= 0 or areas[0] > areas[1]:
        return None
    rows, most_rows = _rounded(np.sqrt(least / ratio)), _rounded(np.sqrt(most / ratio))
    if _rounded(_F(most_rows) * ratio) > width:
        most_rows = int((width + 0.5 - float(_F(1e-7))) / float(ratio))
        if _rounded(_F(most_rows) * ratio) > width:
            most_rows -= 1
    most_rows = min(most_rows, height)
    rows = min(rows, most_rows)
    if rows < most_rows:
        rows += exact_uniform(words, most_rows - rows + 1, 32)
    columns = _rounded(_F(rows) * ratio)
    if rows * columns < least:
        rows += 1
        columns = _rounded(_F(rows) * ratio)
    if rows * columns > most:
        rows -= 1
        columns = _rounded(_F(rows) * ratio)
    if not least <= rows * columns <= most or not 0 < columns <= width or not 0 < rows <= height:
        return None
    top = exact_uniform(words, height - rows, 32) if rows < height else 0
    left = exact_uniform(words, width - columns, 32) if columns < width else 0
    return Rectangle(left, top, left + columns, top + rows)


def _shows_enough(part: Rectangle, covered: float, objects: list[Rectangle]) -> bool:
    return part.area >= 1 and any(o.area >= 1 and _F(part.shared_area(o)) / _F(o.area) >= _F(covered) for o in objects)


def _objects(boxes: Any, width: int, height: int, limits: Limits) -> list[Rectangle]:
    if boxes.ndim != 3:
        raise InvalidArgumentError(
            f"input boxes must be 3-dimensional [batch, num_boxes, coords]: {shape_text(boxes.shape)}"
        )
    if boxes.shape[-1] != 4:
        raise InvalidArgumentError(f"bounding boxes must have shape [4] or [*, 4], got {shape_text(boxes.shape)}")
    outside = boxes[~((boxes >= 0) & (boxes <= 1))]
    if outside.size:
        raise InvalidArgumentError(f"All bounding box coordinates must be in [0.0, 1.0]: {float(outside[0]):g}")
    if boxes.size == 0:
        if not limits.whole_without_boxes:
            raise InvalidArgumentError(
                "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to "
                "not provide any bounding boxes."
            )
        return [Rectangle(0, 0, width, height)]
    pixels = (boxes.reshape(-1, 4) * np.array([height, width, height, width], _F)).astype(np.int32).tolist()
    return [Rectangle(left, top, right, bottom) for top, left, bottom, right in pixels]


def _image_size(size: Any) -> tuple[int, int]:
    if size.ndim != 1:
        raise InvalidArgumentError("image_size must be 1-dimensional")
    if size.shape[0] != 3:
        raise InvalidArgumentError("image_size must contain 3 elements")
    height, width = int(size[0]), int(size[1])
    if not 0 <= height < _INT32_MAX:
        raise InvalidArgumentError("image height cannot be >= int32 max")
    if not 0 <= width < _INT32_MAX:
        raise InvalidArgumentError("image width cannot be >= int32 max")
    return height, width


def _check_covered(covered: float) -> float:
    if covered < 0:
        raise InvalidArgumentError(f"Min object covered must be non-negative: {covered:g}")
    return covered


def _covered(value: Any) -> float:
    if value.ndim:
        raise InvalidArgumentError(f"min_object_covered must be 0-D, got shape {shape_text(value.shape)}")
    return _check_covered(float(value))


def _sample(limits: Limits, size: Any, boxes: Any, covered: float, gen: Philox) -> tuple[Any, Any, Any]:
    height, width = _image_size(size)
    objects = _objects(boxes, width, height, limits)
    words = WordStream(gen)
    low, high = _F(limits.ratios[0]), _F(limits.ratios[1])
    chosen = Rectangle(0, 0, width, height)
    for _ in range(limits.attempts):
        ratio = _F(words.next_float32()) * (high - low) + low
        part = _crop(width, height, limits.areas, ratio, words)
        if part is not None and _shows_enough(part, covered, objects):
            chosen = part
            break
    begin = np.array([chosen.top, chosen.left, 0]).astype(size.dtype)
    extent = np.array([chosen.bottom - chosen.top, chosen.right - chosen.left, -1]).astype(size.dtype)
    with np.errstate(all="ignore"):
        corners = np.array([chosen.top, chosen.left, chosen.bottom, chosen.right], _F)
        box = (corners / np.array([height, width, height, width], _F)).reshape(1, 1, 4)
    return begin, extent, box


@register_kernel("SampleDistortedBoundingBox", T=_SIZES)
def sample_distorted_bounding_box(k: KernelBuild) -> Kernel:
    covered, limits, generator = _check_covered(k.attr("min_object_covered")), Limits.of(k), generator_of(k)
    reserved = _WORDS_PER_ATTEMPT * limits.attempts
    return lambda size, boxes: _sample(limits, size, boxes, covered, generator.reserve_words(reserved))


@register_kernel("SampleDistortedBoundingBoxV2", T=_SIZES)
def sample_distorted_bounding_box_v2(k: KernelBuild) -> Kernel:
    limits, generator = Limits.of(k), generator_of(k)
    reserved = _WORDS_PER_ATTEMPT * limits.attempts
    return lambda size, boxes, covered: _sample(
        limits, size, boxes, _covered(covered), generator.reserve_words(reserved)
    )


@register_kernel("StatelessSampleDistortedBoundingBox", T=_SIZES)
def stateless_sample_distorted_bounding_box(k: KernelBuild) -> Kernel:
    limits = Limits.of(k)
    return lambda size, boxes, covered, seed: _sample(limits, size, boxes, _covered(covered), stateless_seed(seed))
