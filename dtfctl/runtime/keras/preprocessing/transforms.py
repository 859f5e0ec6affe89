"""Images turned, moved, sheared, zoomed and tinted: arrays of rank 3."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import ndimage

from dtfctl.runtime.keras.preprocessing.image_files import array_to_img, img_to_array, pillow

Array = np.ndarray[Any, Any]


def apply_affine_transform(
    x: Array,
    theta: float = 0,
    tx: float = 0,
    ty: float = 0,
    shear: float = 0,
    zx: float = 1,
    zy: float = 1,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    order: int = 1,
) -> Array:
    """Turn an image, move, shear and zoom it around its middle.

    Args:
        theta, shear: in degrees.
        tx, ty: in rows and columns.
        zx, zy: how many rows and columns come where one was.
        fill_mode: what comes in from outside: "constant" (`cval`), "nearest", "reflect" or "wrap".
        order: of the splines that values between pixels are taken from.

    Raises:
        ValueError: the axes are none of an image.
    """
    if {row_axis, col_axis, channel_axis} != {0, 1, 2} or channel_axis == 1:
        raise ValueError(
            "'row_axis', 'col_axis', and 'channel_axis' must be distinct, of 0, 1 and 2, the channels first or last: "
            f"got {row_axis}, {col_axis}, {channel_axis}"
        )
    if x.ndim != 3:
        raise ValueError(f"Input arrays must be multi-channel 2D images. Received shape: {x.shape}")
    steps = []
    if theta != 0:
        sine, cosine = np.sin(np.deg2rad(theta)), np.cos(np.deg2rad(theta))
        steps.append([[cosine, -sine, 0], [sine, cosine, 0], [0, 0, 1]])
    if tx != 0 or ty != 0:
        steps.append([[1, 0, tx], [0, 1, ty], [0, 0, 1]])
    if shear != 0:
        sine, cosine = np.sin(np.deg2rad(shear)), np.cos(np.deg2rad(shear))
        steps.append([[1, -sine, 0], [0, cosine, 0], [0, 0, 1]])
    if zx != 1 or zy != 1:
        steps.append([[zx, 0, 0], [0, zy, 0], [0, 0, 1]])
    if not steps:
        return x
    matrix = np.array(steps[0], dtype=float)
    for step in steps[1:]:
        matrix = matrix @ np.array(step, dtype=float)
    middle_x, middle_y = x.shape[row_axis] / 2 - 0.5, x.shape[col_axis] / 2 - 0.5
    there = np.array([[1, 0, middle_x], [0, 1, middle_y], [0, 0, 1]])
    back = np.array([[1, 0, -middle_x], [0, 1, -middle_y], [0, 0, 1]])
    matrix = there @ matrix @ back
    if col_axis > row_axis:
        # Rows come before columns in arrays, x before y in the matrix.
        matrix[:, [0, 1]] = matrix[:, [1, 0]]
        matrix[[0, 1]] = matrix[[1, 0]]
    made = [
        ndimage.affine_transform(channel, matrix[:2, :2], matrix[:2, 2], order=order, mode=fill_mode, cval=cval)
        for channel in np.moveaxis(x, channel_axis, 0)
    ]
    return np.stack(made, axis=channel_axis)


def apply_channel_shift(x: Array, intensity: float, channel_axis: int = 0) -> Array:
    """Add to the values of an image; they stay between the smallest and the largest that it had."""
    return np.clip(x + intensity, np.min(x), np.max(x))


def apply_brightness_shift(x: Array, brightness: float, scale: bool = True) -> Array:
    """Multiply how bright an image is, as Pillow does.

    Args:
        scale: stretch the values to 0 ... 255 before.
    """
    enhance = pillow("ImageEnhance").Brightness
    low, high = np.min(x), np.max(x)
    outside = bool(low < 0 or high > 255)
    made = img_to_array(enhance(array_to_img(x, scale=outside or scale)).enhance(brightness))
    return made / 255 * (high - low) + low if outside and not scale else made


def flip_axis(x: Array, axis: int) -> Array:
    """Turn an axis around."""
    return np.flip(x, axis)


def _pair(given: Any, what: str) -> Any:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise ValueError(f"`{what}` should be a tuple or list of two floats. Received: {given}")
    return given


def random_zoom_of(zoom_range: Any) -> tuple[float, float]:
    """Draw how much is zoomed in both directions."""
    low, high = _pair(zoom_range, "zoom_range")
    if low == 1 and high == 1:
        return 1, 1
    zx, zy = np.random.uniform(low, high, 2)
    return float(zx), float(zy)


def random_rotation(
    x: Array,
    rg: float,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> Array:
    """Turn an image by up to `rg` degrees."""
    theta = np.random.uniform(-rg, rg)
    return apply_affine_transform(
        x, theta, 0, 0, 0, 1, 1, row_axis, col_axis, channel_axis, fill_mode, cval, interpolation_order
    )


def random_shift(
    x: Array,
    wrg: float,
    hrg: float,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> Array:
    """Move an image by up to these shares of its width and height."""
    tx = np.random.uniform(-hrg, hrg) * x.shape[row_axis]
    ty = np.random.uniform(-wrg, wrg) * x.shape[col_axis]
    return apply_affine_transform(
        x, 0, tx, ty, 0, 1, 1, row_axis, col_axis, channel_axis, fill_mode, cval, interpolation_order
    )


def random_shear(
    x: Array,
    intensity: float,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> Array:
    """Shear an image by up to `intensity` degrees."""
    shear = np.random.uniform(-intensity, intensity)
    return apply_affine_transform(
        x, 0, 0, 0, shear, 1, 1, row_axis, col_axis, channel_axis, fill_mode, cval, interpolation_order
    )


def random_zoom(
    x: Array,
    zoom_range: Any,
    row_axis: int = 1,
    col_axis: int = 2,
    channel_axis: int = 0,
    fill_mode: str = "nearest",
    cval: float = 0.0,
    interpolation_order: int = 1,
) -> Array:
    """Zoom an image by something within a range, in each direction by itself."""
    zx, zy = random_zoom_of(zoom_range)
    return apply_affine_transform(
        x, 0, 0, 0, 0, zx, zy, row_axis, col_axis, channel_axis, fill_mode, cval, interpolation_order
    )


def random_channel_shift(x: Array, intensity_range: float, channel_axis: int = 0) -> Array:
    """Add up to so much to the values of an image."""
    return apply_channel_shift(x, np.random.uniform(-intensity_range, intensity_range), channel_axis)


def random_brightness(x: Array, brightness_range: Any, scale: bool = True) -> Array:
    """Multiply how bright an image is by something within a range."""
    low, high = _pair(brightness_range, "brightness_range")
    return apply_brightness_shift(x, np.random.uniform(low, high), scale)
