"""Images from and to the bytes of files."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.image_ops.colors import convert_image_dtype
from dtfctl.runtime.ops.random_ops import random_uniform


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Decode the pixels of a BMP, GIF, JPEG or PNG."""
    return apply_op(
        "DecodeImage",
        contents=contents,
        channels=channels or 0,
        dtype=dtype,
        expand_animations=expand_animations,
        name=name,
    )


def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Tell whether bytes begin as a JPEG does."""
    with name_scope(name, "is_jpeg"):
        begin = apply_op("Substr", input=contents, pos=0, len=3)
        return apply_op("Equal", x=begin, y=b"\xff\xd8\xff")


def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
    """Encode pixels as a JPEG, which says how many of them are in an inch (or a "cm")."""
    if xmp_metadata:
        raise ValueError("encode_jpeg writes no XMP metadata: add it to the file, with exiftool or Pillow")
    return apply_op(
        "EncodeJpeg",
        name,
        image=image,
        format=format,
        quality=quality,
        progressive=progressive,
        optimize_size=optimize_size,
        chroma_downsampling=chroma_downsampling,
        density_unit=density_unit,
        x_density=x_density,
        y_density=y_density,
    )


def adjust_jpeg_quality(image: Any, jpeg_quality: Any, dct_method: str = "", name: str | None = None) -> Tensor:
    """Give an image what a JPEG of that quality, 0 to 100, loses.

    Args:
        image: [height, width, channels] of 1 or 3 channels.
        dct_method: how the JPEG is decoded: "INTEGER_FAST", "INTEGER_ACCURATE" or "" for either.
    """
    with name_scope(name, "adjust_jpeg_quality"):
        image = convert_to_tensor(image)
        channels, dtype = image.shape.as_list()[-1], image.dtype
        pixels = convert_image_dtype(image, dtypes.uint8, saturate=True)
        quality = convert_to_tensor(jpeg_quality, dtypes.int32)
        encoded = apply_op("EncodeJpegVariableQuality", images=pixels, quality=quality)
        decoded = apply_op("DecodeJpeg", contents=encoded, channels=channels or 0, dct_method=dct_method)
        return convert_image_dtype(decoded, dtype, saturate=True)


def random_jpeg_quality(image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None) -> Tensor:
    """Give an image what a JPEG of a random quality loses.

    Raises:
        ValueError: a quality is not within 0 and 100, or the smallest is not below the largest.
    """
    if not (0 <= min_jpeg_quality <= 100 and 0 <= max_jpeg_quality <= 100):
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    quality = random_uniform([], min_jpeg_quality, max_jpeg_quality, dtypes.int32, seed)
    return adjust_jpeg_quality(image, quality)
