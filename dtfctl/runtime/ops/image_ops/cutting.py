"""Images cut, padded, mirrored and turned."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops import random_ops
from dtfctl.runtime.ops.check_ops import Assert
from dtfctl.runtime.ops.cond import switch_case
from dtfctl.runtime.ops.image_ops.common import checked_image, size_of, spatial_axes
from dtfctl.runtime.ops.operands import apply_mixed, cast_to


def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Cut a part of a size, at an offset, out of images.

    Raises:
        ValueError: the part is not within them, as far as sizes are known; else InvalidArgumentError when it runs.
    """
    with name_scope(None, "crop_to_bounding_box"):
        image = checked_image(image)
        height, width = size_of(image)
        image = _checked(
            image,
            _must(offset_width, ">=", 0, "offset_width must be >= 0."),
            _must(offset_height, ">=", 0, "offset_height must be >= 0."),
            _must(target_width, ">", 0, "target_width must be > 0."),
            _must(target_height, ">", 0, "target_height must be > 0."),
            _must(width, ">=", target_width + offset_width, "width must be >= target + offset."),
            _must(height, ">=", target_height + offset_height, "height must be >= target + offset."),
        )
        row, _ = spatial_axes(image)
        begin, size = [0] * row, [-1] * row
        begin += [offset_height, offset_width, 0]
        size += [target_height, target_width, -1]
        cut = apply_op("Slice", input=image, begin=_vector(begin), size=_vector(size))
        return _sized(cut, image, target_height, target_width)


def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Put images on a larger black ground, at an offset.

    Raises:
        ValueError: it does not fit, as far as sizes are known; else InvalidArgumentError when it runs.
    """
    with name_scope(None, "pad_to_bounding_box"):
        image = checked_image(image)
        height, width = size_of(image)
        below, right = target_height - offset_height - height, target_width - offset_width - width
        image = _checked(
            image,
            _must(offset_height, ">=", 0, "offset_height must be >= 0"),
            _must(offset_width, ">=", 0, "offset_width must be >= 0"),
            _must(right, ">=", 0, "width must be <= target - offset"),
            _must(below, ">=", 0, "height must be <= target - offset"),
        )
        row, _ = spatial_axes(image)
        flat = [0, 0] * row + [offset_height, below, offset_width, right, 0, 0]
        paddings = apply_op("Reshape", tensor=_vector(flat), shape=[-1, 2])
        return _sized(apply_op("Pad", input=image, paddings=paddings), image, target_height, target_width)


def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """Cut around the middle, or fill up around it.

    Raises:
        ValueError: a size is not positive.
    """
    with name_scope(None, "resize_image_with_crop_or_pad"):
        image = checked_image(image)
        image = _checked(
            image,
            _must(target_width, ">", 0, "target_width must be > 0."),
            _must(target_height, ">", 0, "target_height must be > 0."),
        )
        height, width = size_of(image)
        kept_h, kept_w = _smaller(height, target_height), _smaller(width, target_width)
        cut = crop_to_bounding_box(image, (height - kept_h) // 2, (width - kept_w) // 2, kept_h, kept_w)
        above, left = (target_height - kept_h) // 2, (target_width - kept_w) // 2
        return pad_to_bounding_box(cut, above, left, target_height, target_width)


resize_with_crop_or_pad = resize_image_with_crop_or_pad


def central_crop(image: Any, central_fraction: Any) -> Tensor:
    """Cut the central fraction out of images.

    Raises:
        ValueError: the fraction is not within (0, 1].
    """
    with name_scope(None, "central_crop"):
        whole = convert_to_tensor(image, name="image")
        message = "central_fraction must be within (0, 1]"
        if not isinstance(central_fraction, Tensor):
            if not 0.0 < central_fraction <= 1.0:
                raise ValueError(message)
            if central_fraction == 1.0:
                return whole
        whole = checked_image(whole)
        whole = _checked(whole, _must(central_fraction, ">", 0.0, message), _must(central_fraction, "<=", 1.0, message))
        height, width = size_of(whole)
        (top, rows), (left, columns) = _middle(height, central_fraction), _middle(width, central_fraction)
        row, _ = spatial_axes(whole)
        begin, size = [0] * row + [top, left, 0], [-1] * row + [rows, columns, -1]
        return _sized(apply_op("Slice", input=whole, begin=_vector(begin), size=_vector(size)), whole, rows, columns)


def _middle(size: Any, fraction: Any) -> tuple[Any, Any]:
    """Return where the middle of a length begins, and how long it is; counted in float64 where one is a tensor."""
    start: Any
    if not isinstance(size, Tensor) and not isinstance(fraction, Tensor):
        start = int((size - size * fraction) / 2)
        return start, size - start * 2
    length, part = (
        cast_to(convert_to_tensor(size), dtypes.float64),
        cast_to(convert_to_tensor(fraction), dtypes.float64),
    )
    start = cast_to((length - length * part) / 2, dtypes.int32)
    return start, size - start * 2


def _smaller(a: Any, b: Any) -> Any:
    return apply_mixed("Minimum", a, b) if isinstance(a, Tensor) or isinstance(b, Tensor) else min(a, b)


def _vector(items: Sequence[Any]) -> Any:
    if not any(isinstance(i, Tensor) for i in items):
        return constant(list(items), dtypes.int32)
    return apply_op("Pack", values=[i if isinstance(i, Tensor) else constant(i, dtypes.int32) for i in items])


def _sized(result: Tensor, image: Tensor, height: Any, width: Any) -> Tensor:
    """Give a result the static shape of images of a size."""
    row, column = spatial_axes(image)
    known: list[Any] = [d.value for d in image.shape]
    known[row], known[column] = (None if isinstance(n, Tensor) else n for n in (height, width))
    result.set_shape(known)
    return result


_HOLDS: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    ">": (operator.gt, "Greater"),
    ">=": (operator.ge, "GreaterEqual"),
    "<=": (operator.le, "LessEqual"),
}


def _must(a: Any, how: str, b: Any, message: str) -> Operation | None:
    """Raise ValueError unless two numbers compare so; where one is a tensor, make what fails when it runs."""
    holds, op = _HOLDS[how]
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        if not holds(a, b):
            raise ValueError(message)
        return None
    return Assert(apply_mixed(op, a, b), [message])


def _checked(image: Tensor, *checks: Operation | None) -> Tensor:
    """Let images wait for what is checked when it runs."""
    wanted = [c for c in checks if c is not None]
    if not wanted:
        return image
    with context.get_default_graph().control_dependencies(wanted):
        return apply_op("Identity", input=image)


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


def rot90(image: Any, k: Any = 1, name: str | None = None) -> Tensor:
    """Turn images by quarters against the clock, as many as a number or a tensor says."""
    with name_scope(name, "rot90"):
        turned = checked_image(image)
        if not isinstance(k, Tensor):
            return _turned(turned, k % 4)
        quarters = apply_mixed("FloorMod", k, 4)
        result: Tensor = switch_case(
            cast_to(quarters, dtypes.int32), [functools.partial(_same_or_turned, turned, n) for n in range(4)]
        )
        known: list[Any] = [d.value for d in turned.shape]
        row, column = spatial_axes(turned)
        known[row] = known[column] = None
        result.set_shape(known)
        return result


def _turned(image: Tensor, quarters: int) -> Tensor:
    if quarters == 1:
        return flip_up_down(transpose_image(image))
    if quarters == 2:
        return flip_left_right(flip_up_down(image))
    if quarters == 3:
        return transpose_image(flip_up_down(image))
    return image


def _same_or_turned(image: Tensor, quarters: int) -> Tensor:
    return _turned(apply_op("Identity", input=image), quarters)


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
        # TensorFlow rounds what it draws for images of a batch: they turn above 1/2, where a single one does below it.
        turn = apply_op("Reshape", tensor=apply_mixed("Greater", draw, 0.5), shape=constant([-1, 1, 1, 1]))
        return apply_op("SelectV2", condition=turn, t=apply_op("ReverseV2", tensor=image, axis=[row]), e=image)


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Mirror images left to right with probability 1/2."""
    return _random_flip(image, 1, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Mirror images top to bottom with probability 1/2."""
    return _random_flip(image, 0, seed, "random_flip_up_down")
