"""Pixels: types, brightness, contrast, hue and color spaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import random_ops
from dtfctl.runtime.ops.nn_ops import reduce_over
from dtfctl.runtime.ops.operands import apply_mixed, cast_to


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """Convert a picture to another type; floats range over [0, 1], integers over the whole type."""
    image = convert_to_tensor(image, name="image")
    wanted, have = as_dtype(dtype), image.dtype.base_dtype
    if wanted is have:
        return apply_op("Identity", input=image, name=name)
    with name_scope(name, "convert_image") as scope:
        if have.is_integer and wanted.is_integer:
            top_in, top_out = int(have.max), int(wanted.max)
            if top_in > top_out:
                scaled = apply_mixed("FloorDiv", image, (top_in + 1) // (top_out + 1))
                return apply_op("Cast", x=scaled, DstT=wanted, name=scope)
            return apply_mixed("Mul", cast_to(image, wanted), (top_out + 1) // (top_in + 1), scope)
        if have.is_floating and wanted.is_floating:
            return apply_op("Cast", x=image, DstT=wanted, name=scope)
        if have.is_integer:
            return apply_mixed("Mul", cast_to(image, wanted), 1.0 / int(have.max), scope)
        scaled = apply_mixed("Mul", image, int(wanted.max) + 0.5)
        if saturate:
            scaled = apply_mixed("Maximum", apply_mixed("Minimum", scaled, float(wanted.max)), float(wanted.min))
        return apply_op("Cast", x=scaled, DstT=wanted, name=scope)


def _in_float(image: Any, function: Callable[[Tensor, str | None], Tensor], name: str) -> Tensor:
    """Apply a function of float images to images of any type."""
    with name_scope(name) as scope:
        image = convert_to_tensor(image, name="image")
        dtype = image.dtype.base_dtype
        if dtype in (dtypes.float16, dtypes.float32):
            return apply_op("Identity", input=function(image, scope))
        return convert_image_dtype(function(convert_image_dtype(image, dtypes.float32), None), dtype, saturate=True)


def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """Add `delta` to all pixels."""
    return _in_float(image, lambda x, name: apply_mixed("AddV2", x, delta, name), "adjust_brightness")


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Move pixels away from each channel's mean by a factor."""
    return _in_float(
        images,
        lambda x, _: apply_op("AdjustContrastv2", images=x, contrast_factor=contrast_factor),
        "adjust_contrast",
    )


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """Turn the hue of RGB images by `delta` of a circle."""
    return _in_float(image, lambda x, _: apply_op("AdjustHue", images=x, delta=delta), name or "adjust_hue")


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Multiply the saturation of RGB images."""
    return _in_float(
        image, lambda x, _: apply_op("AdjustSaturation", images=x, scale=saturation_factor), name or "adjust_saturation"
    )


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """Compute gain * pixel ** gamma."""
    return _in_float(image, lambda x, _: apply_mixed("Mul", apply_mixed("Pow", x, gamma), gain), "adjust_gamma")


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Adjust brightness by a random amount."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random_ops.random_uniform([], -max_delta, max_delta, seed=seed))


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Adjust contrast by a random factor."""
    _check_range(lower, upper)
    return adjust_contrast(image, random_ops.random_uniform([], lower, upper, seed=seed))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Adjust saturation by a random factor."""
    _check_range(lower, upper)
    return adjust_saturation(image, random_ops.random_uniform([], lower, upper, seed=seed))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Adjust the hue by a random amount."""
    if not 0 <= max_delta <= 0.5:
        raise ValueError("max_delta must be in [0, 0.5].")
    return adjust_hue(image, random_ops.random_uniform([], -max_delta, max_delta, seed=seed))


def _check_range(lower: float, upper: float) -> None:
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Compute the luminance of RGB images, [..., 3] to [..., 1], in their type."""
    with name_scope(name, "rgb_to_grayscale") as scope:
        images = convert_to_tensor(images, name="images")
        dtype = images.dtype.base_dtype
        weighted = apply_mixed("Mul", convert_image_dtype(images, dtypes.float32), constant([0.2989, 0.587, 0.114]))
        return convert_image_dtype(reduce_over("Sum", weighted, [-1], True), dtype, name=scope)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Convert grayscale images to RGB."""
    with name_scope(name, "grayscale_to_rgb") as scope:
        images = convert_to_tensor(images, name="images")
        if images.shape.rank is None:
            ones = apply_op("OnesLike", x=apply_op("Shape", input=images))
            multiples = apply_op("ConcatV2", values=[ones[:-1], constant([3], dtypes.int32)], axis=0)
        else:
            multiples = constant([1] * (images.shape.rank - 1) + [3], dtypes.int32)
        result = apply_op("Tile", input=images, multiples=multiples, name=scope)
        if images.shape.rank is not None:
            result.set_shape([*images.shape.dims_or_none[:-1], 3])
        return result
