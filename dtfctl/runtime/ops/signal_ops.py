"""Windows, frames and short-time spectra of signals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
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


def kaiser_window(
    window_length: Any, beta: float = 12.0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Make Kaiser's window, [window_length].

    Raises:
        ValueError: the type is not floating.
    """
    with name_scope(name, "kaiser_window"):
        element, length = _window(window_length, dtype)
        if constant_value(length) == 1:
            return array_ops.ones([1], element)
        half = (math_ops.cast(length, dtypes.float32) - 1.0) / 2.0
        places = math_ops.cast(math_ops.range(-half, half + 0.1), element)
        inner = 1.0 - math_ops.square(places / math_ops.cast(half, element))
        height = beta * math_ops.sqrt(math_ops.maximum(inner, array_ops.zeros_like(inner)))
        peak = apply_op("BesselI0e", x=convert_to_tensor(beta, element))
        return math_ops.exp(height - beta) * (apply_op("BesselI0e", x=height) / peak)


def kaiser_bessel_derived_window(
    window_length: Any, beta: float = 12.0, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Make the window that is derived from the running sum of Kaiser's, [window_length]."""
    with name_scope(name, "kaiser_bessel_derived_window"):
        element, length = _window(window_length, dtype)
        summed = math_ops.cumsum(kaiser_window(length // 2 + 1, beta, element))
        half = math_ops.sqrt(summed[:-1] / summed[-1])
        return array_ops.concat([half, half[::-1]], 0)


def vorbis_window(window_length: Any, dtype: Any = dtypes.float32, name: str | None = None) -> Tensor:
    """Make the window of Vorbis, [window_length]."""
    with name_scope(name, "vorbis_window"):
        element, length = _window(window_length, dtype)
        places = math_ops.cast(math_ops.range(length), element) + 0.5
        inner = math_ops.sin(np.pi / math_ops.cast(length, element) * places)
        return math_ops.sin(np.pi / 2.0 * math_ops.pow(inner, 2.0))


def _window(length: Any, dtype: Any) -> tuple[dtypes.DType, Tensor]:
    element = as_dtype(dtype)
    if not element.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {element}")
    count = convert_to_tensor(length, dtypes.int32)
    count.shape.assert_has_rank(0)
    return element, count


def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Move frequency 0 to the middle of the axes (all: None)."""
    return _shifted(x, axes, name or "fftshift", 1)


def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Move frequency 0 back to where it was before `fftshift`."""
    return _shifted(x, axes, name or "ifftshift", -1)


def _shifted(x: Any, axes: Any, name: str, sign: int) -> Tensor:
    with name_scope(name):
        x = convert_to_tensor(x)
        if axes is None:
            axes = list(range(int(x.shape.rank or 0)))
        over = [axes] if isinstance(axes, int) else [int(a) for a in axes]
        sizes = array_ops.gather(array_ops.shape(x), np.array([a % int(x.shape.rank or 1) for a in over], np.int32))
        shift = sizes // 2 if sign > 0 else -(sizes // 2)
        return apply_op("Roll", input=x, shift=shift, axis=np.array(over, np.int32))


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
        signal: [..., samples].
        pad_end: frames that begin inside the signal are filled up with `pad_value`; else they are left out.

    Raises:
        ValueError: the rank is not known.
    """
    with name_scope(name, "frame"):
        signal = convert_to_tensor(signal)
        rank = signal.shape.rank
        if rank is None:
            raise ValueError(f"frame needs a signal of known rank, not {signal.shape}")
        axis %= rank
        known = signal.shape[axis].value
        length, step = (convert_to_tensor(n, dtypes.int32) for n in (frame_length, frame_step))
        sizes = [constant_value(n) for n in (length, step)]
        if known is None or None in sizes:
            samples: Any = array_ops.shape(signal)[axis]
        else:
            samples, length, step = known, *(int(n) for n in sizes)  # type: ignore[assignment, arg-type]
        most = math_ops.maximum if isinstance(samples, Tensor) else max
        if pad_end:
            frames = -(-samples // step)
            missing = most(0, length + step * (frames - 1) - samples)
            paddings = [[0, missing if i == axis else 0] for i in range(rank)]
            signal = array_ops.pad(signal, paddings, constant_values=pad_value)
        else:
            frames = most(0, 1 + (samples - length) // step)
        starts = (
            math_ops.range(frames) * step if isinstance(frames, Tensor) else np.arange(frames, dtype=np.int32) * step
        )
        offsets = math_ops.range(length) if isinstance(length, Tensor) else np.arange(length, dtype=np.int32)
        columns: Any = array_ops.expand_dims(starts, 1) if isinstance(starts, Tensor) else starts[:, None]
        framed = array_ops.gather(signal, columns + offsets, axis=axis)
        span = sizes[0] if sizes[0] is None else int(sizes[0])
        count = None if isinstance(frames, Tensor) else int(frames)
        outer, inner = signal.shape[:axis], signal.shape[axis + 1 :]
        framed.set_shape(outer.concatenate([count, span]).concatenate(inner))
        return framed


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
