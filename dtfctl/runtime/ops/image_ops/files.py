"""Images from and to the bytes of files."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor


def decode_png(contents: Any, channels: int = 0, dtype: Any = dtypes.uint8, name: str | None = None) -> Tensor:
    """Pixels of a PNG."""
    return apply_op("DecodePng", contents=contents, channels=channels, dtype=dtype, name=name)


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
    return apply_op(
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
    return apply_op("DecodeGif", contents=contents, name=name)


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """Pixels of a BMP."""
    return apply_op("DecodeBmp", contents=contents, channels=channels, name=name)


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Pixels of a BMP, GIF, JPEG or PNG."""
    return apply_op(
        "DecodeImage",
        contents=contents,
        channels=channels or 0,
        dtype=dtype,
        expand_animations=expand_animations,
        name=name,
    )


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """A PNG of pixels."""
    return apply_op("EncodePng", image=image, compression=compression, name=name)


def encode_jpeg(image: Any, format: str = "", quality: int = 95, name: str | None = None, **options: Any) -> Tensor:
    """A JPEG of pixels."""
    return apply_op("EncodeJpeg", name, image=image, format=format, quality=quality, **options)


def extract_jpeg_shape(contents: Any, output_type: Any = dtypes.int32, name: str | None = None) -> Tensor:
    """[height, width, channels] of a JPEG, without decoding it."""
    return apply_op("ExtractJpegShape", contents=contents, output_type=output_type, name=name)
