"""Decoding and encoding of image files (decode_image_op, encode_*_op). JPEG, GIF and WebP need the `image` extra."""

from __future__ import annotations

import importlib
import io
import struct
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError, UnimplementedError
from dtfctl.runtime.framework.tensor_codec import object_array, object_scalar
from dtfctl.runtime.kernels.image.png import SIGNATURE, decode_png, encode_png
from dtfctl.runtime.kernels.pieces import look
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel
from dtfctl.runtime.kernels.state.common import shape_text

_MAX_PIXELS = 1 << 28


def _pillow() -> Any:
    """Pillow's Image module.

    Raises:
        UnimplementedError: it is not installed.
    """
    try:
        return importlib.import_module("PIL.Image")
    except ImportError:
        raise UnimplementedError(
            "JPEG, GIF and WebP images need Pillow on the task that runs the op: pip install 'dtfctl[image]'"
        ) from None


def _kind(contents: bytes) -> str:
    if contents.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if contents.startswith(SIGNATURE[:4]):
        return "png"
    if contents.startswith(b"GIF8"):
        return "gif"
    if contents.startswith(b"BM"):
        return "bmp"
    if contents[:4] == b"RIFF" and contents[8:12] == b"WEBP":
        return "webp"
    raise InvalidArgumentError("Unknown image file format. One of JPEG, PNG, GIF, BMP required.")


def _contents(value: Any) -> bytes:
    if value.ndim:
        raise InvalidArgumentError(f"`contents` must be scalar but got shape{shape_text(value.shape)}")
    return bytes(value[()])


def _with_channels(pixels: Any, channels: int) -> Any:
    """Convert between gray, gray with alpha, RGB and RGBA; 0 keeps what is there."""
    have = pixels.shape[-1]
    if channels in (0, have):
        return pixels
    full = pixels.dtype.type(np.iinfo(pixels.dtype).max)
    color = pixels[..., :3] if have >= 3 else pixels[..., :1]
    alpha = pixels[..., -1:] if have in (2, 4) else np.full((*pixels.shape[:-1], 1), full)
    if channels in (1, 2):
        if color.shape[-1] == 3:
            weighted = color.astype(np.uint32) @ np.array([9798, 19235, 3735], np.uint32)
            color = (weighted >> 15).astype(pixels.dtype)[..., None]
    elif color.shape[-1] == 1:
        color = np.repeat(color, 3, axis=-1)
    return color if channels in (1, 3) else np.concatenate([color, alpha], axis=-1)


def _depth(pixels: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a picture to another type: 8 bits, 16 bits, or float in [0, 1]."""
    if dtype == pixels.dtype:
        return pixels
    if dtype == np.uint8:
        return (pixels >> 8).astype(np.uint8)
    if dtype == np.uint16:
        return pixels.astype(np.uint16) * np.uint16(257)
    return (pixels.astype(np.float64) / np.iinfo(pixels.dtype).max).astype(dtype)


def decode_bmp(contents: bytes) -> Any:
    """Uncompressed BMP of 8 (gray), 24 or 32 bits.

    Raises:
        InvalidArgumentError: malformed or of another kind.
    """
    if len(contents) < 54:
        raise InvalidArgumentError(f"Incomplete bmp content, requires at least 54 bytes, got {len(contents)} bytes")
    offset = struct.unpack_from("<I", contents, 10)[0]
    width, height = struct.unpack_from("<ii", contents, 18)
    bits = struct.unpack_from("<H", contents, 28)[0]
    channels = bits // 8
    if channels not in (1, 3, 4):
        raise InvalidArgumentError(f"Number of channels inherent in the image must be 1, 3 or 4, was {channels}")
    if width <= 0 or height == 0 or abs(height) * width > _MAX_PIXELS:
        raise InvalidArgumentError(f"Image dimensions must be positive and reasonable, got {width} x {height}")
    stride = (width * channels + 3) // 4 * 4
    rows = abs(height)
    data = np.frombuffer(contents, np.uint8)[offset : offset + stride * rows]
    if data.size < stride * rows - (stride - width * channels):
        raise InvalidArgumentError(f"Incomplete bmp content, requires at least {offset + stride * rows} bytes")
    whole = np.zeros(stride * rows, np.uint8)
    whole[: data.size] = data
    pixels = whole.reshape(rows, stride)[:, : width * channels].reshape(rows, width, channels)
    if height > 0:
        pixels = pixels[::-1]
    if channels == 1:
        return pixels.copy()
    return np.ascontiguousarray(pixels[..., [2, 1, 0] + ([3] if channels == 4 else [])])


def _decode_frames(contents: bytes) -> Any:
    """Decode all frames of a GIF: uint8 (frames, height, width, 3)."""
    image = _open(contents)
    frames = []
    for i in range(getattr(image, "n_frames", 1)):
        look()
        image.seek(i)
        frames.append(np.asarray(image.convert("RGB")))
    return np.stack(frames)


def _open(contents: bytes) -> Any:
    pillow = _pillow()
    try:
        image = pillow.open(io.BytesIO(contents))
        if image.size[0] * image.size[1] > _MAX_PIXELS:
            raise InvalidArgumentError(f"Image of {image.size[0]} x {image.size[1]} is too large")
        return image
    except (OSError, ValueError, SyntaxError) as e:
        raise InvalidArgumentError(f"Invalid image data, size {len(contents)}: {e}") from None


def _decode_jpeg(contents: bytes, channels: int, ratio: int = 1) -> Any:
    image = _open(contents)
    if ratio > 1:
        image.draft(image.mode, (-(-image.size[0] // ratio), -(-image.size[1] // ratio)))
    try:
        image = image.convert("L" if channels == 1 or (channels == 0 and image.mode == "L") else "RGB")
    except OSError as e:
        raise InvalidArgumentError(f"Invalid JPEG data or crop window, data size {len(contents)}: {e}") from None
    pixels = np.asarray(image)
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _decode(contents: bytes, channels: int, expand: bool, ratio: int = 1) -> Any:
    kind = _kind(contents)
    if kind == "gif":
        frames = _decode_frames(contents)
        return frames if expand else frames[0]
    if kind == "jpeg":
        return _with_channels(_decode_jpeg(contents, channels, ratio), channels)
    if kind == "png":
        return _with_channels(decode_png(contents), channels)
    if kind == "bmp":
        return _with_channels(decode_bmp(contents), channels)
    mode = "RGBA" if channels == 4 or (channels == 0 and "A" in _open(contents).mode) else "RGB"
    return _with_channels(np.asarray(_open(contents).convert(mode)), channels)


def _decoder(k: KernelBuild, expand: bool) -> Kernel:
    channels = k.attr("channels", 0) or 0
    dtype = k.attr("dtype")
    wanted = np.dtype(np.uint8) if dtype is None else dtype.np
    if channels not in (0, 1, 3, 4):
        raise InvalidArgumentError(f"`channels` must be 0, 1, 3 or 4 but got {channels}", k.node.name)
    ratio = k.attr("ratio", 1) or 1

    def kernel(contents: Any) -> Any:
        return _depth(_decode(_contents(contents), channels, expand, ratio), wanted)

    return kernel


@register_kernel(("DecodePng", "DecodeJpeg", "DecodeBmp", "DecodeWebP"), pieces=True)
def decode_one(k: KernelBuild) -> Kernel:
    return _decoder(k, expand=False)


@register_kernel("DecodeImage", pieces=True)
def decode_image(k: KernelBuild) -> Kernel:
    return _decoder(k, expand=k.attr("expand_animations", True))


@register_kernel("DecodeGif", pieces=True)
def decode_gif(k: KernelBuild) -> Kernel:
    def kernel(contents: Any) -> Any:
        data = _contents(contents)
        pixels = _decode(data, 3, expand=True)
        return pixels if pixels.ndim == 4 else pixels[None]

    return kernel


@register_kernel("DecodeAndCropJpeg")
def decode_and_crop_jpeg(k: KernelBuild) -> Kernel:
    channels = k.attr("channels", 0) or 0

    def kernel(contents: Any, crop_window: Any) -> Any:
        if crop_window.shape != (4,):
            raise InvalidArgumentError(f"crop_window must have four elements {shape_text(crop_window.shape)}")
        top, left, height, width = (int(v) for v in crop_window)
        pixels = _with_channels(_decode_jpeg(_contents(contents), channels), channels)
        if top < 0 or left < 0 or height <= 0 or width <= 0 or top + height > pixels.shape[0]:
            raise InvalidArgumentError("Invalid JPEG data or crop window")
        if left + width > pixels.shape[1]:
            raise InvalidArgumentError("Invalid JPEG data or crop window")
        return np.ascontiguousarray(pixels[top : top + height, left : left + width])

    return kernel


@register_kernel("ExtractJpegShape")
def extract_jpeg_shape(k: KernelBuild) -> Kernel:
    out_type = k.dtype("output_type").np

    def kernel(contents: Any) -> Any:
        data = _contents(contents)
        position = 2
        while data.startswith(b"\xff\xd8") and position + 9 < len(data):
            marker, length = data[position + 1], struct.unpack_from(">H", data, position + 2)[0]
            if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
                height, width, channels = struct.unpack_from(">HHB", data, position + 5)
                return np.array([height, width, channels], out_type)
            position += 2 + length
        raise InvalidArgumentError("Invalid JPEG data, size " + str(len(data)))

    return kernel


@register_kernel("EncodePng", pieces=True, T=(dtypes.uint8, dtypes.uint16))
def encode_png_op(k: KernelBuild) -> Kernel:
    level = k.attr("compression", -1)
    if not -1 <= level <= 9:
        raise InvalidArgumentError(f"compression should be in [-1,9], got {level}", k.node.name)

    def kernel(image: Any) -> Any:
        if image.ndim < 3:
            raise InvalidArgumentError(f"images must be at least rank 3, got {shape_text(image.shape)}")
        if image.shape[-1] not in (1, 2, 3, 4):
            raise InvalidArgumentError(f"image must have 1, 2, 3, or 4 channels, got {shape_text(image.shape)}")
        if image.size == 0:
            raise InvalidArgumentError("image must not be empty")
        flat = image.reshape(-1, *image.shape[-3:])
        return object_array([encode_png(one, level) for one in flat], image.shape[:-3])

    return kernel


def _encode_jpeg(image: Any, quality: int, k: KernelBuild) -> bytes:
    if image.ndim != 3:
        raise InvalidArgumentError(f"image must be 3-dimensional{shape_text(image.shape)}")
    if not 0 <= quality <= 100:
        raise InvalidArgumentError(f"quality must be in [0,100], got {quality}")
    form = k.text_attr("format")
    channels = {"grayscale": 1, "rgb": 3}.get(form, image.shape[2])
    if channels not in (1, 3) or channels != image.shape[2]:
        raise InvalidArgumentError(f"format {form or 'default'} expects {channels} channels, got {image.shape[2]}")
    picture = _pillow().fromarray(image[..., 0] if channels == 1 else image)
    out = io.BytesIO()
    inches = 2.54 if k.text_attr("density_unit") == "cm" else 1.0
    density = (k.attr("x_density", 300) * inches, k.attr("y_density", 300) * inches)
    picture.save(
        out,
        "JPEG",
        quality=quality,
        progressive=bool(k.attr("progressive", False)),
        optimize=bool(k.attr("optimize_size", False)),
        subsampling=2 if k.attr("chroma_downsampling", True) else 0,
        dpi=density,
    )
    return out.getvalue()


@register_kernel("EncodeJpeg")
def encode_jpeg(k: KernelBuild) -> Kernel:
    quality = k.attr("quality", 95)
    return lambda image: object_scalar(_encode_jpeg(image, quality, k))


@register_kernel("EncodeJpegVariableQuality")
def encode_jpeg_variable_quality(k: KernelBuild) -> Kernel:
    def kernel(image: Any, quality: Any) -> Any:
        if quality.ndim:
            raise InvalidArgumentError(f"quality must be scalar: {shape_text(quality.shape)}")
        return object_scalar(_encode_jpeg(image, int(quality), k))

    return kernel
