"""Images from and to the bytes of files."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor


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
