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


def encode_jpeg(image: Any, format: str = "", quality: int = 95, name: str | None = None, **options: Any) -> Tensor:
    """Encode pixels as a JPEG."""
    return apply_op("EncodeJpeg", name, image=image, format=format, quality=quality, **options)
