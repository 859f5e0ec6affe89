"""Images cut, padded, mirrored and turned."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import random_ops
from dtfctl.runtime.ops.image_ops.common import checked_image, spatial_axes, static_size
from dtfctl.runtime.ops.operands import apply_mixed


def crop_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """Cut a part of a size, at an offset, out of images."""
    image = checked_image(image)
    rank = len(image.shape)
    begin, size = [0] * rank, [-1] * rank
    row, column = spatial_axes(image)
    begin[row], begin[column] = offset_height, offset_width
    size[row], size[column] = target_height, target_width
    return apply_op("Slice", input=image, begin=begin, size=size)


def pad_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """Put images on a larger black ground, at an offset.

    Raises:
        ValueError: it does not fit.
    """
    image = checked_image(image)
    height, width = static_size(image)
    below, right = target_height - offset_height - height, target_width - offset_width - width
    if min(offset_height, offset_width) < 0:
        raise ValueError("offset_height and offset_width must be >= 0")
    if below < 0 or right < 0:
        raise ValueError("width must be <= target - offset and height must be <= target - offset")
    paddings = [[0, 0]] * (len(image.shape) - 3) + [[offset_height, below], [offset_width, right], [0, 0]]
    return apply_op("Pad", input=image, paddings=constant(paddings, dtypes.int32))


def resize_image_with_crop_or_pad(image: Any, target_height: int, target_width: int) -> Tensor:
    """Cut around the middle, or fill up around it."""
    image = checked_image(image)
    height, width = static_size(image)
    kept_h, kept_w = min(height, target_height), min(width, target_width)
    cut = crop_to_bounding_box(image, (height - kept_h) // 2, (width - kept_w) // 2, kept_h, kept_w)
    return pad_to_bounding_box(
        cut, (target_height - kept_h) // 2, (target_width - kept_w) // 2, target_height, target_width
    )


resize_with_crop_or_pad = resize_image_with_crop_or_pad


def central_crop(image: Any, central_fraction: float) -> Tensor:
    """Cut the central fraction out of images."""
    if not 0.0 < central_fraction <= 1.0:
        raise ValueError("central_fraction must be within (0, 1]")
    whole = checked_image(image)
    if central_fraction == 1.0:
        return whole
    height, width = static_size(whole)
    top, left = int((height - height * central_fraction) / 2), int((width - width * central_fraction) / 2)
    return crop_to_bounding_box(whole, top, left, height - 2 * top, width - 2 * left)


def flip_left_right(image: Any) -> Tensor:
    """Mirror images left to right."""
    with name_scope(None, "flip_left_right"):
        image = checked_image(image)
        return apply_op("ReverseV2", tensor=image, axis=[spatial_axes(image)[1]])


def flip_up_down(image: Any) -> Tensor:
    """Mirror images top to bottom."""
    with name_scope(None, "flip_up_down"):
        image = checked_image(image)
        return apply_op("ReverseV2", tensor=image, axis=[spatial_axes(image)[0]])


def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """Swap height and width of images."""
    image = checked_image(image)
    order = [1, 0, 2] if len(image.shape) == 3 else [0, 2, 1, 3]
    return apply_op("Transpose", x=image, perm=order, name=name)


transpose = transpose_image


def rot90(image: Any, k: int = 1, name: str | None = None) -> Tensor:
    """Turn images by quarters against the clock."""
    with name_scope(name, "rot90"):
        turned = checked_image(image)
        if k % 4 == 1:
            return flip_up_down(transpose_image(turned))
        if k % 4 == 2:
            return flip_left_right(flip_up_down(turned))
        if k % 4 == 3:
            return transpose_image(flip_up_down(turned))
        return turned


def _random_flip(image: Any, axis: int, seed: int | None, name: str) -> Tensor:
    with name_scope(name):
        image = checked_image(image)
        row = spatial_axes(image)[axis]
        if len(image.shape) == 3:
            draw = random_ops.random_uniform([], 0, 1.0, seed=seed)
            turn = apply_mixed("Less", draw, 0.5)
            return apply_op("SelectV2", condition=turn, t=apply_op("ReverseV2", tensor=image, axis=[row]), e=image)
        batch = apply_op("StridedSlice", input=apply_op("Shape", input=image), begin=[0], end=[1], strides=[1])
        draw = random_ops.random_uniform(batch, seed=seed)
        turn = apply_op("Reshape", tensor=apply_mixed("Less", draw, 0.5), shape=constant([-1, 1, 1, 1]))
        return apply_op("SelectV2", condition=turn, t=apply_op("ReverseV2", tensor=image, axis=[row]), e=image)


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Mirror images left to right with probability 1/2."""
    return _random_flip(image, 1, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Mirror images top to bottom with probability 1/2."""
    return _random_flip(image, 0, seed, "random_flip_up_down")
