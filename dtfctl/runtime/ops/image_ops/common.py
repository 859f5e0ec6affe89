"""Images as tensors: rank, size and where height and width are."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor


def checked_image(image: Any) -> Tensor:
    """Take images of rank 3 or 4; one of unknown rank, as `decode_image` gives it, is a single image.

    Raises:
        ValueError: the rank is another one.
    """
    tensor = convert_to_tensor(image, name="image")
    if tensor.shape.rank is None:
        tensor = apply_op("Identity", input=tensor)
        tensor.set_shape([None, None, None])
    if tensor.shape.rank not in (3, 4):
        raise ValueError(f"'image' (shape {tensor.shape}) must have either 3 or 4 dimensions.")
    return tensor


def size_of(image: Tensor) -> tuple[int | Tensor, int | Tensor]:
    """Get height and width: numbers where they are known, else tensors."""
    row, column = spatial_axes(image)
    height, width = image.shape[row].value, image.shape[column].value
    if height is not None and width is not None:
        return height, width
    sizes = apply_op("Shape", input=image)

    def along(axis: int) -> Tensor:
        return apply_op("StridedSlice", input=sizes, begin=[axis], end=[axis + 1], strides=[1], shrink_axis_mask=1)

    return along(row) if height is None else height, along(column) if width is None else width


def spatial_axes(image: Tensor) -> tuple[int, int]:
    rank = len(image.shape)
    return rank - 3, rank - 2
