"""Images as files, as Pillow has them, and as arrays."""

from __future__ import annotations

import importlib
import io
import os
from typing import Any

import numpy as np

from dtfctl.runtime.keras.backend.settings import floatx
from dtfctl.runtime.keras.layers.spatial import checked_format

_MODES = {"grayscale": ("L", ("L", "I;16", "I")), "rgb": ("RGB", ("RGB",)), "rgba": ("RGBA", ("RGBA",))}


def pillow(module: str) -> Any:
    """Return a module of Pillow.

    Raises:
        ImportError: it is not installed.
    """
    try:
        return importlib.import_module(f"PIL.{module}")
    except ImportError:
        raise ImportError(
            "tf.keras.preprocessing.image needs Pillow for images in files and for brightness: "
            "pip install 'dtfctl[image]'"
        ) from None


def array_to_img(x: Any, data_format: str | None = None, scale: bool = True, dtype: Any = None) -> Any:
    """Make an image of Pillow's of an array of rank 3.

    Args:
        scale: stretch the values to 0 ... 255.

    Raises:
        ValueError: the array is no image. ImportError: Pillow is not installed.
    """
    image = pillow("Image")
    x = np.asarray(x, dtype=dtype or floatx())
    if x.ndim != 3:
        raise ValueError(f"Expected image array to have rank 3 (single image). Got array with shape: {x.shape}")
    if checked_format(data_format) == "channels_first":
        x = x.transpose(1, 2, 0)
    if scale:
        x = x - np.min(x)
        largest = np.max(x)
        x = (x / largest if largest != 0 else x) * 255
    if x.shape[2] in (3, 4):
        return image.fromarray(np.ascontiguousarray(x.astype("uint8")))
    if x.shape[2] == 1:
        return image.fromarray(x[:, :, 0].astype("int32" if np.max(x) > 255 else "uint8"))
    raise ValueError(f"Unsupported channel number: {x.shape[2]}")


def img_to_array(img: Any, data_format: str | None = None, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Make an array of rank 3 of an image of Pillow's, or of an array of rank 2."""
    x = np.asarray(img, dtype=dtype or floatx())
    first = checked_format(data_format) == "channels_first"
    if x.ndim == 2:
        return x[None] if first else x[..., None]
    if x.ndim != 3:
        raise ValueError(f"Unsupported image shape: {x.shape}")
    return x.transpose(2, 0, 1) if first else x


def save_img(
    path: Any, x: Any, data_format: str | None = None, file_format: str | None = None, scale: bool = True, **kwargs: Any
) -> None:
    """Write an array as an image; `file_format` is said by the name's end when None."""
    img = array_to_img(x, data_format, scale)
    if img.mode == "RGBA" and file_format in ("jpg", "jpeg"):
        img = img.convert("RGB")
    img.save(path, format=file_format, **kwargs)


def load_img(
    path: Any,
    grayscale: bool = False,
    color_mode: str = "rgb",
    target_size: Any = None,
    interpolation: str = "nearest",
    keep_aspect_ratio: bool = False,
) -> Any:
    """Read an image as Pillow has it.

    Args:
        color_mode: "grayscale", "rgb" or "rgba"; `grayscale` says the first.
        target_size: (height, width) that it is resized to.
        interpolation: how it is resized: "nearest", "bilinear", "bicubic", "lanczos", "box" or "hamming".
        keep_aspect_ratio: cut its middle out before it is resized.

    Raises:
        ValueError: there is no such mode or interpolation. ImportError: Pillow is not installed.
    """
    image = pillow("Image")
    color_mode = "grayscale" if grayscale else color_mode
    if color_mode not in _MODES:
        raise ValueError('color_mode must be "grayscale", "rgb", or "rgba"')
    if isinstance(path, io.BytesIO):
        img = image.open(path)
    else:
        with open(os.fspath(path), "rb") as file:
            img = image.open(io.BytesIO(file.read()))
    mode, fitting = _MODES[color_mode]
    if img.mode not in fitting:
        img = img.convert(mode)
    if target_size is None:
        return img
    size = (target_size[1], target_size[0])
    if img.size == size:
        return img
    ways = {n: getattr(image.Resampling, n.upper()) for n in ("nearest", "bilinear", "bicubic", "hamming", "box")}
    ways["lanczos"] = image.Resampling.LANCZOS
    if interpolation not in ways:
        raise ValueError(
            f"Invalid interpolation method {interpolation} specified. Supported methods are {', '.join(ways)}"
        )
    if not keep_aspect_ratio:
        return img.resize(size, ways[interpolation])
    width, height = img.size
    cut_height, cut_width = min(height, width * size[1] // size[0]), min(width, height * size[0] // size[1])
    top, left = (height - cut_height) // 2, (width - cut_width) // 2
    return img.resize(size, ways[interpolation], box=[left, top, left + cut_width, top + cut_height])
