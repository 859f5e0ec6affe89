"""16-bit PCM WAV files: DecodeWav and EncodeWav."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.kernels.data_flow.handles import shape_text
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


def encode_wav(audio: Any, rate: int) -> bytes:
    """Encode a clip [frames, channels] of values in -1..1 as a WAV file of 16-bit samples."""
    _frames, channels = audio.shape
    scaled = np.asarray(audio, np.float32) * np.float32(32768.0)
    rounded = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    samples = np.clip(rounded, -32768, 32767).astype("<i2").tobytes()
    head = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, rate, rate * channels * 2, channels * 2, 16)
    body = b"WAVE" + head + struct.pack("<4sI", b"data", len(samples)) + samples
    return bytes(struct.pack("<4sI", b"RIFF", len(body)) + body)


def decode_wav(data: bytes) -> tuple[Any, int]:
    """Samples [frames, channels] in -1..1 and the sample rate.

    Raises:
        InvalidArgumentError: this is no 16-bit PCM WAV file.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise InvalidArgumentError("Header mismatch: Expected RIFF but found " + data[:4].decode(errors="replace"))
    at, channels, rate, samples = 12, 0, 0, None
    while at + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        body = data[at + 8 : at + 8 + size]
        if name == b"fmt ":
            if len(body) < 16:
                raise InvalidArgumentError(f"Bad format chunk size for WAV: Expected 16 or 18, but got {size}")
            form, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", body)
            if form != 1:
                raise InvalidArgumentError(f"Bad audio format for WAV: Expected 1 (PCM), but got{form}")
            if bits != 16:
                raise InvalidArgumentError(f"Can only read 16-bit WAV files, but received {bits}")
        elif name == b"data":
            samples = body
        at += 8 + size + (size & 1)
    if samples is None or not channels:
        raise InvalidArgumentError("Missing data or format chunk in WAV file")
    frames = len(samples) // (2 * channels)
    pcm = np.frombuffer(samples[: frames * 2 * channels], "<i2").reshape(frames, channels)
    return pcm.astype(np.float32) / np.float32(32768.0), rate


@register_kernel("EncodeWav")
def encode_wav_kernel(k: KernelBuild) -> Kernel:
    def run(audio: Any, rate: Any) -> Any:
        if audio.ndim != 2:
            raise InvalidArgumentError(f"audio must be 2-dimensional{shape_text(audio.shape)}")
        if rate.shape != ():
            raise InvalidArgumentError(
                f"Input sample_rate should be a scalar tensor, got {shape_text(rate.shape)} instead."
            )
        return object_scalar(encode_wav(audio, int(rate)))

    return run


@register_kernel("DecodeWav")
def decode_wav_kernel(k: KernelBuild) -> Kernel:
    wanted_channels, wanted_samples = k.attr("desired_channels"), k.attr("desired_samples")

    def run(contents: Any) -> Any:
        if contents.shape != ():
            raise InvalidArgumentError(f"contents must be scalar but got shape {shape_text(contents.shape)}")
        audio, rate = decode_wav(contents.reshape(-1)[0])
        channels = audio.shape[1] if wanted_channels == -1 else wanted_channels
        samples = audio.shape[0] if wanted_samples == -1 else wanted_samples
        out = np.zeros((samples, channels), np.float32)
        count = min(samples, audio.shape[0])
        # Missing channels repeat the last one there is.
        out[:count] = audio[:count, [min(c, audio.shape[1] - 1) for c in range(channels)]]
        return out, np.int32(rate)

    return run
