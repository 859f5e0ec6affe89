"""Windows, frames and short-time spectra of signals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops


def _raised_cosine(length: Any, periodic: bool, dtype: Any, a: float, name: str) -> Tensor:
    element, count = as_dtype(dtype), int(length)
    if not element.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {element}")
    span = count + int(periodic and count % 2 == 0) - 1
    values = a - (1 - a) * np.cos(2 * np.pi * np.arange(count) / span) if count > 1 else np.ones(count)
    return constant(values, element, name=name)


def hann_window(
    window_length: int, periodic: bool = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Make Hann's window, [window_length]; a periodic one (of even length) would go on with its first value.

    Raises:
        ValueError: the type is not floating.
    """
    return _raised_cosine(window_length, periodic, dtype, 0.5, name or "hann_window")


def hamming_window(
    window_length: int, periodic: bool = True, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Make Hamming's window; arguments and errors as for `hann_window`."""
    return _raised_cosine(window_length, periodic, dtype, 0.54, name or "hamming_window")


def frame(
    signal: Any,
    frame_length: int,
    frame_step: int,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Cut a signal into frames, one every `frame_step`: its axis becomes [frames, frame_length].

    Args:
        signal: [..., samples]; the number of samples is known.
        pad_end: frames that begin inside the signal are filled up with `pad_value`; else they are left out.

    Raises:
        ValueError: the number of samples, or the rank, is not known.
    """
    with name_scope(name, "frame"):
        signal = convert_to_tensor(signal)
        rank = signal.shape.rank
        samples = None if rank is None else signal.shape.as_list()[axis]
        if rank is None or samples is None:
            raise ValueError(f"frame needs a signal whose axis {axis} has a known size, not {signal.shape}")
        axis %= rank
        if pad_end:
            frames = -(-samples // frame_step)
            missing = max(0, frame_length + frame_step * (frames - 1) - samples)
            paddings = [[0, missing if i == axis else 0] for i in range(rank)]
            signal = array_ops.pad(signal, paddings, constant_values=pad_value)
        else:
            frames = max(0, 1 + (samples - frame_length) // frame_step)
        starts = np.arange(frames, dtype=np.int32) * frame_step
        return array_ops.gather(signal, starts[:, None] + np.arange(frame_length, dtype=np.int32), axis=axis)


def overlap_and_add(signal: Any, frame_step: int, name: str | None = None) -> Tensor:
    """Join frames [..., frames, frame_length] to a signal, added where they overlap.

    Raises:
        ValueError: the last two dimensions are not known.
    """
    with name_scope(name, "overlap_and_add"):
        signal = convert_to_tensor(signal)
        dims: list[Any] = signal.shape.as_list()[-2:] if signal.shape.rank is not None else [None]
        if None in dims or len(dims) < 2:
            raise ValueError(f"overlap_and_add needs frames of known number and length, not {signal.shape}")
        frames, length = dims
        at = np.arange(frames)[:, None] * frame_step + np.arange(length)
        size = length + frame_step * (frames - 1)
        rows = array_ops.reshape(signal, [-1, frames * length])
        summed = math_ops.unsorted_segment_sum(array_ops.transpose(rows), at.reshape(-1).astype(np.int32), size)
        outer = array_ops.shape(signal)[:-2]
        return array_ops.reshape(array_ops.transpose(summed), array_ops.concat([outer, constant([size])], 0))


def _at_least(t: Tensor, size: int) -> Tensor:
    """Fill the last dimension of a tensor, of known size, up to a size with zeros."""
    dims = t.shape.as_list() if t.shape.rank is not None else [None]
    if dims[-1] is None:
        raise ValueError(f"The last dimension of {t.name} must be known, not {t.shape}")
    if dims[-1] >= size:
        return t
    return array_ops.pad(t, [[0, 0]] * (len(dims) - 1) + [[0, size - dims[-1]]])


def _power_of_two(value: int) -> int:
    return 1 << max(0, math.ceil(math.log2(value)))


def stft(
    signals: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Callable[..., Any] | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """Compute the short-time Fourier transform of [..., samples] floats: complex [..., frames, fft_length // 2 + 1].

    Args:
        fft_length: the power of two that holds a frame, when None.
        window_fn: from a length and `dtype=` to a window; None is none.
    """
    with name_scope(name, "stft"):
        framed: Any = frame(signals, frame_length, frame_step, pad_end)
        if window_fn is not None:
            framed = framed * window_fn(frame_length, dtype=framed.dtype.base_dtype)
        length = fft_length or _power_of_two(frame_length)
        return math_ops.rfft(framed, [length])


def inverse_stft_window_fn(
    frame_step: int, forward_window_fn: Callable[..., Any] = hann_window, name: str | None = None
) -> Callable[..., Tensor]:
    """Make the window with which `inverse_stft` undoes `stft` with `forward_window_fn`."""

    def window(frame_length: int, dtype: Any) -> Tensor:
        with name_scope(name, "inverse_stft_window_fn"):
            forward = forward_window_fn(frame_length, dtype=dtype)
            overlaps = -(-frame_length // frame_step)
            squares = array_ops.pad(math_ops.square(forward), [[0, overlaps * frame_step - frame_length]])
            summed = math_ops.reduce_sum(array_ops.reshape(squares, [overlaps, frame_step]), 0)
            return math_ops.div_no_nan(forward, array_ops.tile(summed, [overlaps])[:frame_length])

    return window


def inverse_stft(
    stfts: Any,
    frame_length: int,
    frame_step: int,
    fft_length: int | None = None,
    window_fn: Callable[..., Any] | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """Join signals from [..., frames, bins]; by `window_fn=inverse_stft_window_fn(frame_step)` those `stft` took."""
    with name_scope(name, "inverse_stft"):
        stfts = convert_to_tensor(stfts)
        length = fft_length or _power_of_two(frame_length)
        frames: Any = math_ops.irfft(stfts, [length])
        frames.set_shape([*stfts.shape.as_list()[:-1], length])
        frames = _at_least(frames, frame_length)[..., :frame_length]
        frames.set_shape([*stfts.shape.as_list()[:-1], frame_length])
        if window_fn is not None:
            frames = frames * window_fn(frame_length, dtype=frames.dtype.base_dtype)
        return overlap_and_add(frames, frame_step)
