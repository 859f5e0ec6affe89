"""Kernels of the summary ops: what event files and TensorBoard are made of."""

from __future__ import annotations

import struct
import sys
import zlib
from functools import lru_cache
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from dtfctl.protocol import summary_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import encode_tensor, object_scalar
from dtfctl.runtime.kernels.arguments import text_of
from dtfctl.runtime.kernels.data_flow.handles import shape_text
from dtfctl.runtime.kernels.io.wav import encode_wav
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_FLOAT_MAX = sys.float_info.max


def _tag(tag: Any, what: str = "tags") -> str:
    if tag.ndim != 0:
        raise InvalidArgumentError(f"{what} must be scalar")
    return text_of(tag, "replace")


def _output(summary: summary_pb2.Summary) -> Any:
    return object_scalar(summary.SerializeToString())


@register_kernel("ScalarSummary")
def scalar_summary(k: KernelBuild) -> Kernel:
    def run(tags: Any, values: Any) -> Any:
        values = np.asarray(values)
        if tags.shape != values.shape and not (tags.size == values.size == 1):
            names = f" (tag '{text_of(tags, 'replace')}')" if tags.size == 1 else ""
            raise InvalidArgumentError(
                f"tags and values are not the same shape: {shape_text(tags.shape)} != {shape_text(values.shape)}{names}"
            )
        summary = summary_pb2.Summary()
        for tag, value in zip(tags.reshape(-1).tolist(), values.reshape(-1)):
            summary.value.add(tag=tag.decode("utf-8", "replace"), simple_value=float(value))
        return _output(summary)

    return run


@lru_cache(maxsize=1)
def default_bucket_limits() -> Any:
    """Bucket limits that grow by 10 % from 1e-12 to 1e20, on both sides of zero."""
    positive = []
    value = 1e-12
    while value < 1e20:
        positive.append(value)
        value *= 1.1
    positive.append(_FLOAT_MAX)
    return np.array([-v for v in reversed(positive)] + [0.0] + positive)


def histogram(values: Any) -> summary_pb2.HistogramProto:
    """Count finite values in the default buckets, runs of empty ones joined."""
    flat = np.asarray(values).reshape(-1).astype(np.float64)
    limits = default_bucket_limits()
    places = np.minimum(np.searchsorted(limits, flat, "right"), limits.size - 1)
    counts = np.bincount(places, minlength=limits.size)
    proto = summary_pb2.HistogramProto(
        min=float(flat.min()) if flat.size else _FLOAT_MAX,
        max=float(flat.max()) if flat.size else -_FLOAT_MAX,
        num=float(flat.size),
        sum=float(flat.sum()),
        sum_squares=float(np.square(flat).sum()),
    )
    i = 0
    while i < limits.size:
        end = i
        if counts[i] == 0:
            while end + 1 < limits.size and counts[end + 1] == 0:
                end += 1
        proto.bucket_limit.append(float(limits[end]))
        proto.bucket.append(float(counts[end]))
        i = end + 1
    return proto


@register_kernel("HistogramSummary")
def histogram_summary(k: KernelBuild) -> Kernel:
    return lambda tag, values: _output(histogram_of(_tag(tag), values, k.node.name))


def histogram_of(tag: str, values: Any, who: str) -> summary_pb2.Summary:
    """Make a summary with one histogram; `who` is named when a value is not finite."""
    flat = np.asarray(values).reshape(-1)
    if flat.dtype.kind not in "iub":
        wide = flat.astype(np.float64)
        if np.isnan(wide).any():
            raise InvalidArgumentError(f"Nan in summary histogram for: {who}")
        if np.isinf(wide).any():
            raise InvalidArgumentError(f"Infinity in summary histogram for: {who}")
    summary = summary_pb2.Summary()
    summary.value.add(tag=tag, histo=histogram(flat))
    return summary


@register_kernel("MergeSummary")
def merge_summary(k: KernelBuild) -> Kernel:
    def run(*inputs: Any) -> Any:
        merged = summary_pb2.Summary()
        tags: set[str] = set()
        for value in inputs:
            for text in value.reshape(-1).tolist():
                try:
                    summary = summary_pb2.Summary.FromString(text)
                except Exception as e:
                    raise InvalidArgumentError(
                        "Could not parse one of the summary inputs",
                    ) from e
                for item in summary.value:
                    if item.tag and item.tag in tags:
                        raise InvalidArgumentError(f"Duplicate tag {item.tag} found in summary inputs")
                    tags.add(item.tag)
                    merged.value.append(item)
        return _output(merged)

    return run


@register_kernel("TensorSummary")
def tensor_summary(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T")

    def run(tensor: Any) -> Any:
        summary = summary_pb2.Summary()
        summary.value.add(node_name=k.node.name, tensor=encode_tensor(tensor, dtype))
        return _output(summary)

    return run


@register_kernel("TensorSummaryV2")
def tensor_summary_v2(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T")

    def run(tag: Any, tensor: Any, metadata: Any) -> Any:
        summary = summary_pb2.Summary()
        value = summary.value.add(tag=_tag(tag, "tag"), tensor=encode_tensor(tensor, dtype))
        text = metadata.reshape(-1)[0]
        if text:
            try:
                value.metadata.ParseFromString(text)
            except DecodeError as e:
                raise InvalidArgumentError(f"serialized_summary_metadata is no SummaryMetadata: {e}") from e
        return _output(summary)

    return run


def encode_png(image: Any) -> bytes:
    """Encode a uint8 image [height, width, 1 to 4 channels] as PNG."""
    height, width, channels = image.shape
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    raw = np.zeros((height, 1 + width * channels), np.uint8)
    raw[:, 1:] = image.reshape(height, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw.tobytes())) + chunk(b"IEND", b"")
    )


def _normalized(image: Any, bad_color: Any) -> Any:
    """Scale a float image to 0..255: from zero when nothing is negative, else with zero at 128."""
    wide = image.astype(np.float32)
    finite = np.isfinite(wide).all(axis=-1)
    good = wide[finite]
    low, high = (float(good.min()), float(good.max())) if good.size else (0.0, 0.0)
    if low < 0:
        largest = max(abs(low), abs(high))
        scale, offset = (0.0 if largest < 1e-6 else 127.0 / largest), 128.0
    else:
        scale, offset = (0.0 if high < 1e-6 else 255.0 / high), 0.0
    out = np.empty(image.shape, np.uint8)
    out[finite] = (good * np.float32(scale) + np.float32(offset)).astype(np.uint8)
    out[~finite] = bad_color[: image.shape[-1]]
    return out


@register_kernel("ImageSummary")
def image_summary(k: KernelBuild) -> Kernel:
    most, is_bytes = k.attr("max_images"), k.dtype("T") is dtypes.uint8
    bad_color = np.asarray(k.attr("bad_color"))
    if bad_color.ndim != 1:
        raise InvalidArgumentError(f"bad_color must be a vector, got shape {shape_text(bad_color.shape)}", k.node.name)

    return lambda tag, images: _output(images_of(_tag(tag, "Tag"), images, most, is_bytes, bad_color))


def images_of(tag: str, images: Any, most: int, is_bytes: bool, bad_color: Any) -> summary_pb2.Summary:
    """Make a summary with the first `most` of a batch of images [n, height, width, channels]."""
    if images.ndim != 4 or images.shape[3] not in (1, 3, 4):
        raise InvalidArgumentError(f"Tensor must be 4-D with last dim 1, 3, or 4, not {shape_text(images.shape)}")
    summary = summary_pb2.Summary()
    for i in range(min(most, images.shape[0])):
        image = images[i] if is_bytes else _normalized(images[i], bad_color)
        height, width, channels = image.shape
        value = summary.value.add(tag=f"{tag}/image/{i}" if most > 1 else f"{tag}/image")
        value.image.height, value.image.width, value.image.colorspace = height, width, channels
        value.image.encoded_image_string = encode_png(image)
    return summary


@register_kernel(("AudioSummary", "AudioSummaryV2"))
def audio_summary(k: KernelBuild) -> Kernel:
    most, fixed_rate = k.attr("max_outputs"), k.attr("sample_rate")

    def run(tag: Any, audio: Any, rate: Any = None) -> Any:
        if rate is not None and rate.size != 1:
            raise InvalidArgumentError("sample_rate must be rank-0 or contain a single value")
        hertz = fixed_rate if rate is None else rate.reshape(-1)[0]
        return _output(clips_of(_tag(tag, "Tag"), audio, most, float(hertz)))

    return run


def clips_of(tag: str, audio: Any, most: int, hertz: float) -> summary_pb2.Summary:
    """Make a summary with the first `most` of a batch of clips [n, frames] or [n, frames, channels]."""
    if audio.ndim not in (2, 3):
        raise InvalidArgumentError(f"Tensor must be 3-D or 2-D, got: {shape_text(audio.shape)}")
    if hertz <= 0:
        raise InvalidArgumentError("sample_rate must be > 0")
    clips = audio if audio.ndim == 3 else audio[:, :, None]
    summary = summary_pb2.Summary()
    for i in range(min(most, clips.shape[0])):
        frames, channels = clips[i].shape
        value = summary.value.add(tag=f"{tag}/audio/{i}" if most > 1 else f"{tag}/audio")
        value.audio.sample_rate = hertz
        value.audio.num_channels, value.audio.length_frames = channels, frames
        value.audio.content_type = "audio/wav"
        value.audio.encoded_audio_string = encode_wav(clips[i], int(hertz))
    return summary
