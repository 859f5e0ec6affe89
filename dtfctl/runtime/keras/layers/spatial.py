"""Sizes, strides and the place of channels: the arguments of layers over images, steps and volumes."""

from __future__ import annotations

from dtfctl.runtime.keras.backend.settings import image_data_format


def checked_format(data_format: str | None) -> str:
    """Check where channels are; the default when None."""
    found = image_data_format() if data_format is None else data_format.lower()
    if found not in ("channels_last", "channels_first"):
        raise ValueError(
            f'The `data_format` argument must be one of "channels_first", "channels_last". Received: {found}'
        )
    return found


def out_length(length: int | None, size: int, padding: str, stride: int, dilation: int = 1) -> int | None:
    """Compute how long a convolution or pooling makes an axis."""
    if length is None:
        return None
    reach = (size - 1) * dilation + 1
    if padding == "valid":
        length = length - reach + 1
    return -(-length // stride)
