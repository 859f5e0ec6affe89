"""`tf.image`: resizing, cropping, flipping, colors and files with TF1's names and argument orders."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import get_seed, name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import random_ops
from dtfctl.runtime.ops.nn_ops import reduce_over
from dtfctl.runtime.ops.operands import apply_mixed, cast_to


class ResizeMethod:
    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


_RESIZE_OPS = {0: "ResizeBilinear", 1: "ResizeNearestNeighbor", 2: "ResizeBicubic", 3: "ResizeArea"}


def _resize(op: str, images: Any, size: Any, align: bool, half: bool, name: str | None) -> Tensor:
    extra = {} if op == "ResizeArea" else {"half_pixel_centers": half}
    size = convert_to_tensor(size, dtypes.int32, name="size")
    return apply_op(op, name, images=images, size=size, align_corners=align, **extra)  # type: ignore[no-any-return]


def resize_bilinear(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Images resized with bilinear interpolation."""
    return _resize("ResizeBilinear", images, size, align_corners, half_pixel_centers, name)


def resize_nearest_neighbor(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Images resized by taking the nearest pixel."""
    return _resize("ResizeNearestNeighbor", images, size, align_corners, half_pixel_centers, name)


def resize_bicubic(
    images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
) -> Tensor:
    """Images resized with bicubic interpolation."""
    return _resize("ResizeBicubic", images, size, align_corners, half_pixel_centers, name)


def resize_area(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Images resized by averaging areas."""
    return _resize("ResizeArea", images, size, align_corners, False, name)


def resize_images(
    images: Any,
    size: Any,
    method: int = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """A batch of images, or one, in another size.

    Raises:
        ValueError: images of another rank, a size that is no pair, or an unknown method.
    """
    with name_scope(name, "resize"):
        images = convert_to_tensor(images, name="images")
        if images.shape.rank not in (3, 4):
            raise ValueError("'images' must have either 3 or 4 dimensions.")
        single = images.shape.rank == 3
        if single:
            images = apply_op("ExpandDims", input=images, dim=0)
        wanted = convert_to_tensor(size, dtypes.int32, name="size")
        if not wanted.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        if preserve_aspect_ratio:
            wanted = _kept_ratio(images, wanted)
        value = constant_value(wanted)
        if value is not None and images.shape[1].value == value[0] and images.shape[2].value == value[1]:
            out = images
        elif method in _RESIZE_OPS:
            out = _resize(_RESIZE_OPS[method], images, wanted, align_corners, False, None)
        else:
            raise ValueError(f"Resize method is not implemented: {method}")
        return apply_op("Squeeze", input=out, squeeze_dims=[0]) if single else out  # type: ignore[no-any-return]


resize = resize_images


def _kept_ratio(images: Tensor, size: Tensor) -> Tensor:
    """The largest size within `size` that has the images' proportions."""
    have = apply_op("StridedSlice", input=apply_op("Shape", input=images), begin=[1], end=[3], strides=[1])
    have, limit = (apply_op("Cast", x=v, DstT=dtypes.float32) for v in (have, size))
    scale = reduce_over("Min", apply_mixed("RealDiv", limit, have), [0])
    return apply_op("Cast", x=apply_op("Round", x=apply_mixed("Mul", have, scale)), DstT=dtypes.int32)  # type: ignore[no-any-return]


def crop_and_resize(
    image: Any,
    boxes: Any,
    box_ind: Any = None,
    crop_size: Any = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: Any = None,
) -> Tensor:
    """Boxes of images, each resized to one size."""
    return apply_op(  # type: ignore[no-any-return]
        "CropAndResize",
        image=image,
        boxes=boxes,
        box_ind=box_ind if box_indices is None else box_indices,
        crop_size=crop_size,
        method=method,
        extrapolation_value=extrapolation_value,
        name=name,
    )


# Cutting and turning.


def _image(image: Any) -> Tensor:
    image = convert_to_tensor(image, name="image")
    if image.shape.rank not in (3, 4):
        raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
    return image  # type: ignore[no-any-return]


def _sizes(image: Tensor) -> tuple[int, int]:
    """Static height and width."""
    height, width = image.shape[-3].value, image.shape[-2].value
    if height is None or width is None:
        raise ValueError("'image' must have a known height and width")
    return height, width


def _axes(image: Tensor) -> tuple[int, int]:
    rank = len(image.shape)
    return rank - 3, rank - 2


def crop_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """The part of images at an offset, of a size."""
    image = _image(image)
    rank = len(image.shape)
    begin, size = [0] * rank, [-1] * rank
    row, column = _axes(image)
    begin[row], begin[column] = offset_height, offset_width
    size[row], size[column] = target_height, target_width
    return apply_op("Slice", input=image, begin=begin, size=size)  # type: ignore[no-any-return]


def pad_to_bounding_box(
    image: Any, offset_height: int, offset_width: int, target_height: int, target_width: int
) -> Tensor:
    """The image on a black ground.

    Raises:
        ValueError: it does not fit.
    """
    image = _image(image)
    height, width = _sizes(image)
    below, right = target_height - offset_height - height, target_width - offset_width - width
    if min(offset_height, offset_width) < 0:
        raise ValueError("offset_height and offset_width must be >= 0")
    if below < 0 or right < 0:
        raise ValueError("width must be <= target - offset and height must be <= target - offset")
    paddings = [[0, 0]] * (len(image.shape) - 3) + [[offset_height, below], [offset_width, right], [0, 0]]
    return apply_op("Pad", input=image, paddings=constant(paddings, dtypes.int32))  # type: ignore[no-any-return]


def resize_image_with_crop_or_pad(image: Any, target_height: int, target_width: int) -> Tensor:
    """Cut around the middle, or fill up around it."""
    image = _image(image)
    height, width = _sizes(image)
    kept_h, kept_w = min(height, target_height), min(width, target_width)
    cut = crop_to_bounding_box(image, (height - kept_h) // 2, (width - kept_w) // 2, kept_h, kept_w)
    return pad_to_bounding_box(
        cut, (target_height - kept_h) // 2, (target_width - kept_w) // 2, target_height, target_width
    )


resize_with_crop_or_pad = resize_image_with_crop_or_pad


def central_crop(image: Any, central_fraction: float) -> Tensor:
    """The central fraction of images."""
    if not 0.0 < central_fraction <= 1.0:
        raise ValueError("central_fraction must be within (0, 1]")
    image = _image(image)
    if central_fraction == 1.0:
        return image  # type: ignore[no-any-return]
    height, width = _sizes(image)
    top, left = int((height - height * central_fraction) / 2), int((width - width * central_fraction) / 2)
    return crop_to_bounding_box(image, top, left, height - 2 * top, width - 2 * left)


def flip_left_right(image: Any) -> Tensor:
    """Images mirrored left to right."""
    image = _image(image)
    return apply_op("ReverseV2", tensor=image, axis=[_axes(image)[1]])  # type: ignore[no-any-return]


def flip_up_down(image: Any) -> Tensor:
    """Images mirrored top to bottom."""
    image = _image(image)
    return apply_op("ReverseV2", tensor=image, axis=[_axes(image)[0]])  # type: ignore[no-any-return]


def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """Images with height and width swapped."""
    image = _image(image)
    order = [1, 0, 2] if len(image.shape) == 3 else [0, 2, 1, 3]
    return apply_op("Transpose", x=image, perm=order, name=name)  # type: ignore[no-any-return]


transpose = transpose_image


def rot90(image: Any, k: int = 1, name: str | None = None) -> Tensor:
    """Quarter turns against the clock."""
    with name_scope(name, "rot90"):
        turned = _image(image)
        if k % 4 == 1:
            return flip_up_down(transpose_image(turned))
        if k % 4 == 2:
            return flip_left_right(flip_up_down(turned))
        if k % 4 == 3:
            return transpose_image(flip_up_down(turned))
        return turned


def _random_flip(image: Any, axis: int, seed: int | None, name: str) -> Tensor:
    with name_scope(name):
        image = _image(image)
        row = _axes(image)[axis]
        if len(image.shape) == 3:
            draw = random_ops.random_uniform([], 0, 1.0, seed=seed)
            turn = apply_mixed("Less", draw, 0.5)
            return apply_op(  # type: ignore[no-any-return]
                "SelectV2", condition=turn, t=apply_op("ReverseV2", tensor=image, axis=[row]), e=image
            )
        batch = apply_op("StridedSlice", input=apply_op("Shape", input=image), begin=[0], end=[1], strides=[1])
        draw = random_ops.random_uniform(batch, seed=seed)
        turn = apply_op("Reshape", tensor=apply_mixed("Less", draw, 0.5), shape=constant([-1, 1, 1, 1]))
        return apply_op(  # type: ignore[no-any-return]
            "SelectV2", condition=turn, t=apply_op("ReverseV2", tensor=image, axis=[row]), e=image
        )


def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Images mirrored left to right with probability 1/2."""
    return _random_flip(image, 1, seed, "random_flip_left_right")


def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Images mirrored top to bottom with probability 1/2."""
    return _random_flip(image, 0, seed, "random_flip_up_down")


# Colors.


def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """The same picture in another type; floats range over [0, 1], integers over the whole type."""
    image = convert_to_tensor(image, name="image")
    wanted, have = as_dtype(dtype), image.dtype.base_dtype
    if wanted is have:
        return apply_op("Identity", input=image, name=name)  # type: ignore[no-any-return]
    with name_scope(name, "convert_image") as scope:
        if have.is_integer and wanted.is_integer:
            top_in, top_out = int(have.max), int(wanted.max)
            if top_in > top_out:
                scaled = apply_mixed("FloorDiv", image, (top_in + 1) // (top_out + 1))
                return apply_op("Cast", x=scaled, DstT=wanted, name=scope)  # type: ignore[no-any-return]
            return apply_mixed("Mul", cast_to(image, wanted), (top_out + 1) // (top_in + 1), scope)
        if have.is_floating and wanted.is_floating:
            return apply_op("Cast", x=image, DstT=wanted, name=scope)  # type: ignore[no-any-return]
        if have.is_integer:
            return apply_mixed("Mul", cast_to(image, wanted), 1.0 / int(have.max), scope)
        scaled = apply_mixed("Mul", image, int(wanted.max) + 0.5)
        if saturate:
            scaled = apply_mixed("Maximum", apply_mixed("Minimum", scaled, float(wanted.max)), float(wanted.min))
        return apply_op("Cast", x=scaled, DstT=wanted, name=scope)  # type: ignore[no-any-return]


def _in_float(image: Any, function: Any, name: str) -> Tensor:
    """Apply a function of float images to images of any type."""
    with name_scope(name):
        image = convert_to_tensor(image, name="image")
        dtype = image.dtype.base_dtype
        if dtype in (dtypes.float16, dtypes.float32):
            return function(image)  # type: ignore[no-any-return]
        return convert_image_dtype(function(convert_image_dtype(image, dtypes.float32)), dtype, saturate=True)


def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """`delta` added to all pixels."""
    return _in_float(image, lambda x: apply_mixed("AddV2", x, delta), "adjust_brightness")


def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """Pixels moved away from each channel's mean by a factor."""
    return _in_float(
        images,
        lambda x: apply_op("AdjustContrastv2", images=x, contrast_factor=contrast_factor),
        "adjust_contrast",
    )


def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """The hue of RGB images turned by `delta` of a circle."""
    return _in_float(image, lambda x: apply_op("AdjustHue", images=x, delta=delta), name or "adjust_hue")


def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """The saturation of RGB images multiplied."""
    return _in_float(
        image, lambda x: apply_op("AdjustSaturation", images=x, scale=saturation_factor), name or "adjust_saturation"
    )


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """gain * pixel ** gamma."""
    return _in_float(image, lambda x: apply_mixed("Mul", apply_mixed("Pow", x, gamma), gain), "adjust_gamma")


def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Brightness adjusted by a random amount."""
    if max_delta < 0:
        raise ValueError("max_delta must be non-negative.")
    return adjust_brightness(image, random_ops.random_uniform([], -max_delta, max_delta, seed=seed))


def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Contrast adjusted by a random factor."""
    _check_range(lower, upper)
    return adjust_contrast(image, random_ops.random_uniform([], lower, upper, seed=seed))


def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """Saturation adjusted by a random factor."""
    _check_range(lower, upper)
    return adjust_saturation(image, random_ops.random_uniform([], lower, upper, seed=seed))


def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """Hue adjusted by a random amount."""
    if not 0 <= max_delta <= 0.5:
        raise ValueError("max_delta must be in [0, 0.5].")
    return adjust_hue(image, random_ops.random_uniform([], -max_delta, max_delta, seed=seed))


def _check_range(lower: float, upper: float) -> None:
    if upper <= lower:
        raise ValueError("upper must be > lower.")
    if lower < 0:
        raise ValueError("lower must be non-negative.")


def rgb_to_hsv(images: Any, name: str | None = None) -> Tensor:
    """RGB images as hue, saturation and value."""
    return apply_op("RGBToHSV", images=images, name=name)  # type: ignore[no-any-return]


def hsv_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Hue, saturation and value as RGB images."""
    return apply_op("HSVToRGB", images=images, name=name)  # type: ignore[no-any-return]


def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """The luminance of RGB images."""
    with name_scope(name, "rgb_to_grayscale") as scope:
        images = convert_to_tensor(images, name="images")
        dtype = images.dtype.base_dtype
        weighted = apply_mixed("Mul", convert_image_dtype(images, dtypes.float32), constant([0.2989, 0.587, 0.114]))
        return convert_image_dtype(reduce_over("Sum", weighted, [-1], True), dtype, name=scope)


def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Grayscale images as RGB ones."""
    with name_scope(name, "grayscale_to_rgb") as scope:
        images = convert_to_tensor(images, name="images")
        if images.shape.rank is None:
            raise ValueError("grayscale_to_rgb needs images of known rank")
        multiples = [1] * (images.shape.rank - 1) + [3]
        return apply_op("Tile", input=images, multiples=constant(multiples, dtypes.int32), name=scope)  # type: ignore[no-any-return]


def per_image_standardization(image: Any) -> Tensor:
    """Zero mean and unit variance for each image; a flat image stays finite."""
    with name_scope(None, "per_image_standardization") as scope:
        image = _image(image)
        dtype = image.dtype.base_dtype
        x = cast_to(image, dtypes.float32) if dtype not in (dtypes.float16, dtypes.float32) else image
        axes = [-1, -2, -3]
        pixels = int(np.prod(image.shape[-3:].known()))
        mean = reduce_over("Mean", x, axes, True)
        variance = reduce_over("Mean", apply_op("SquaredDifference", x=x, y=mean), axes, True)
        deviation = apply_mixed("Maximum", apply_mixed("Sqrt", variance), 1.0 / float(np.sqrt(pixels)))
        return apply_mixed("RealDiv", apply_mixed("Sub", x, mean), deviation, scope)


def total_variation(images: Any, name: str | None = None) -> Tensor:
    """Sum of absolute differences of neighbouring pixels, by image."""
    with name_scope(name, "total_variation"):
        images = _image(images)
        row, column = _axes(images)

        def difference(axis: int) -> Tensor:
            rank = len(images.shape)
            begin, end = [0] * rank, [0] * rank
            mask = ((1 << rank) - 1) & ~(1 << axis)
            begin[axis] = 1
            tail = apply_op(
                "StridedSlice",
                input=images,
                begin=begin,
                end=end,
                strides=[1] * rank,
                begin_mask=mask,
                end_mask=(1 << rank) - 1,
            )
            end[axis] = -1
            head = apply_op(
                "StridedSlice",
                input=images,
                begin=[0] * rank,
                end=end,
                strides=[1] * rank,
                begin_mask=(1 << rank) - 1,
                end_mask=mask,
            )
            return reduce_over("Sum", apply_mixed("Abs", apply_mixed("Sub", tail, head)), [-1, -2, -3])

        return apply_mixed("AddV2", difference(row), difference(column))


def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """Peak signal-to-noise ratio in decibels, by image."""
    with name_scope(name, "PSNR"):
        a, b = convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32)
        square = reduce_over("Mean", apply_op("SquaredDifference", x=a, y=b), [-3, -2, -1])
        peak = 20 * float(np.log10(max_val))
        return apply_mixed(
            "Sub", constant(peak), apply_mixed("Mul", apply_mixed("Log", square), 10 / float(np.log(10)))
        )


# Boxes.


def draw_bounding_boxes(images: Any, boxes: Any, name: str | None = None, colors: Any = None) -> Tensor:
    """Images with the outlines of boxes drawn on them."""
    if colors is not None:
        return apply_op("DrawBoundingBoxesV2", images=images, boxes=boxes, colors=colors, name=name)  # type: ignore[no-any-return]
    return apply_op("DrawBoundingBoxes", images=images, boxes=boxes, name=name)  # type: ignore[no-any-return]


def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """Indices of the best boxes that do not overlap better ones."""
    with name_scope(name, "non_max_suppression"):
        dtype = convert_to_tensor(boxes).dtype.base_dtype
        return apply_op(  # type: ignore[no-any-return]
            "NonMaxSuppressionV3",
            boxes=boxes,
            scores=scores,
            max_output_size=max_output_size,
            iou_threshold=constant(iou_threshold, dtype),
            score_threshold=constant(score_threshold, dtype),
        )


def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: float = 0.5,
    score_threshold: float = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> Any:
    """The best boxes of each class and image that do not overlap better ones."""
    return apply_op(
        "CombinedNonMaxSuppression",
        boxes=boxes,
        scores=scores,
        max_output_size_per_class=max_output_size_per_class,
        max_total_size=max_total_size,
        iou_threshold=constant(iou_threshold, dtypes.float32),
        score_threshold=constant(score_threshold, dtypes.float32),
        pad_per_class=pad_per_class,
        clip_boxes=clip_boxes,
        name=name,
    )


def extract_glimpse(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """Windows of images around offsets."""
    return apply_op(  # type: ignore[no-any-return]
        "ExtractGlimpse",
        input=input,
        size=size,
        offsets=offsets,
        centered=centered,
        normalized=normalized,
        uniform_noise=uniform_noise,
        name=name,
    )


def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Any = None,
    area_range: Any = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> Any:
    """A random part of an image that still shows enough of an object: begin, size, and the part as a box."""
    first, second = (seed, seed2) if seed2 is not None else get_seed(seed)
    return apply_op(
        "SampleDistortedBoundingBoxV2",
        image_size=image_size,
        bounding_boxes=bounding_boxes,
        min_object_covered=constant(min_object_covered, dtypes.float32),
        seed=first,
        seed2=second,
        aspect_ratio_range=aspect_ratio_range,
        area_range=area_range,
        max_attempts=max_attempts,
        use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes,
        name=name,
    )


# Files.


def decode_png(contents: Any, channels: int = 0, dtype: Any = dtypes.uint8, name: str | None = None) -> Tensor:
    """Pixels of a PNG."""
    return apply_op("DecodePng", contents=contents, channels=channels, dtype=dtype, name=name)  # type: ignore[no-any-return]


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """Pixels of a JPEG."""
    return apply_op(  # type: ignore[no-any-return]
        "DecodeJpeg",
        contents=contents,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction,
        dct_method=dct_method,
        name=name,
    )


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """Frames of a GIF."""
    return apply_op("DecodeGif", contents=contents, name=name)  # type: ignore[no-any-return]


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """Pixels of a BMP."""
    return apply_op("DecodeBmp", contents=contents, channels=channels, name=name)  # type: ignore[no-any-return]


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Pixels of a BMP, GIF, JPEG or PNG."""
    return apply_op(  # type: ignore[no-any-return]
        "DecodeImage",
        contents=contents,
        channels=channels or 0,
        dtype=dtype,
        expand_animations=expand_animations,
        name=name,
    )


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """A PNG of pixels."""
    return apply_op("EncodePng", image=image, compression=compression, name=name)  # type: ignore[no-any-return]


def encode_jpeg(image: Any, format: str = "", quality: int = 95, name: str | None = None, **options: Any) -> Tensor:
    """A JPEG of pixels."""
    return apply_op("EncodeJpeg", name, image=image, format=format, quality=quality, **options)  # type: ignore[no-any-return]


def extract_jpeg_shape(contents: Any, output_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """[height, width, channels] of a JPEG, without decoding it."""
    return apply_op("ExtractJpegShape", contents=contents, output_type=output_type, name=name)  # type: ignore[no-any-return]
