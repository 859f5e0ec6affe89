"""Images as tensors: rank, size and where height and width are."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor


def checked_image(image: Any) -> Tensor:
    tensor = convert_to_tensor(image, name="image")
    if tensor.shape.rank not in (3, 4):
        raise ValueError(f"'image' (shape {tensor.shape}) must have either 3 or 4 dimensions.")
    return tensor


def static_size(image: Tensor) -> tuple[int, int]:
    """Get the static height and width."""
    height, width = image.shape[-3].value, image.shape[-2].value
    if height is None or width is None:
        raise ValueError("'image' must have a known height and width")
    return height, width


def spatial_axes(image: Tensor) -> tuple[int, int]:
    rank = len(image.shape)
    return rank - 3, rank - 2
