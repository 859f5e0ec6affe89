"""Discrete cosine transforms, and what spectra of sound are made into with them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.signal_ops import frame, overlap_and_add, vorbis_window

_HERTZ, _MEL = 700.0, 1127.0


def _check(x: Tensor, type: int, n: int | None, axis: int, norm: str | None) -> None:
    if axis != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}")
    if n is not None and n < 1:
        raise ValueError("n should be a positive integer or None")
    if type not in (1, 2, 3, 4):
        raise ValueError("Types I, II, III and IV (I)DCT are supported.")
    if type == 1 and norm == "ortho":
        raise ValueError("Normalization is not supported for the Type-I DCT.")
    if type == 1 and x.shape.rank and (x.shape[-1].value or 2) < 2:
        raise ValueError("Type-I DCT requires the dimension to be greater than one.")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")


def dct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Compute the cosine transform I to IV of the last dimension, cut off or filled up to `n`; scaled by "ortho".

    Raises:
        ValueError, NotImplementedError: another type, axis or norm.
    """
    with name_scope(name, "dct"):
        x = convert_to_tensor(input)
        _check(x, type, n, axis, norm)
        return _transformed(x if n is None else _of_length(x, n), type, norm)


def idct(
    input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Undo `dct`, but for a factor of 2n (of 2(n - 1) for I) where it was not "ortho"."""
    with name_scope(name, "idct"):
        x = convert_to_tensor(input)
        _check(x, type, n, axis, norm)
        return _transformed(x if n is None else _of_length(x, n), {1: 1, 2: 3, 3: 2, 4: 4}[type], norm)


def _of_length(x: Tensor, n: int) -> Tensor:
    cut = x[..., :n]
    size: Any = cut.shape[-1].value
    missing = n - (array_ops.shape(cut)[-1] if size is None else size)
    if size == n:
        return cut
    rank = int(cut.shape.rank or 0)
    filled = array_ops.pad(cut, [[0, 0]] * (rank - 1) + [[0, missing]])
    filled.set_shape(cut.shape[:-1].concatenate([n]))
    return filled


def _transformed(x: Tensor, type: int, norm: str | None) -> Tensor:
    known = x.shape[-1].value
    size: Any = array_ops.shape(x)[-1] if known is None else known
    count = math_ops.cast(size, x.dtype.base_dtype)
    zero = convert_to_tensor(0.0, x.dtype.base_dtype)
    if type == 1:
        return math_ops.real(math_ops.rfft(array_ops.concat([x, x[..., -2:0:-1]], -1)))
    if type == 4:
        doubled = _transformed(_doubled(x, size), 2, None)[..., 1::2]
        return doubled * (math.sqrt(0.5) * math_ops.rsqrt(count)) if norm == "ortho" else doubled
    turns = math_ops.range(count) * (math.pi * 0.5) / count
    if type == 2:
        scale = 2.0 * math_ops.exp(math_ops.complex(zero, -turns))
        found = math_ops.real(math_ops.rfft(x, fft_length=[2 * size])[..., :size] * scale)
        return found * _weights(0.5 * math_ops.rsqrt(count), math.sqrt(2.0), size) if norm == "ortho" else found
    scale = 2.0 * math_ops.exp(math_ops.complex(zero, turns))
    x = x * (_weights(math_ops.sqrt(count), math.sqrt(0.5), size) if norm == "ortho" else count)
    return math_ops.irfft(scale * math_ops.complex(x, zero), fft_length=[2 * size])[..., :size]


def _doubled(x: Tensor, size: Any) -> Tensor:
    return array_ops.pad(x, [[0, 0]] * (int(x.shape.rank or 1) - 1) + [[0, size]])


def _weights(first: Tensor, rest: float, size: Any) -> Tensor:
    ones = array_ops.fill(array_ops.stack([size - 1]), first * rest)
    return array_ops.concat([array_ops.expand_dims(first, 0), ones], 0)


def mdct(
    signals: Any,
    frame_length: Any,
    window_fn: Callable[..., Any] | None = vorbis_window,
    pad_end: bool = False,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Compute the modified cosine transform of [..., samples]: [..., frames, frame_length // 2].

    Args:
        frame_length: a multiple of 4; frames begin every half of it.

    Raises:
        ValueError: it is no multiple of 4.
    """
    with name_scope(name, "mdct"):
        signals = convert_to_tensor(signals)
        length = _quarter(frame_length) * 4
        half = length // 2
        framed: Any = frame(signals, length, half, pad_end)
        if window_fn is not None:
            framed = framed * window_fn(length, dtype=framed.dtype.base_dtype)
        else:
            framed = framed * (1.0 / np.sqrt(2))
        a, b, c, d = array_ops.split(framed, 4, axis=-1)
        folded = array_ops.concat([-array_ops.reverse_v2(c, [-1]) - d, a - array_ops.reverse_v2(b, [-1])], -1)
        return dct(folded, type=4, norm=norm)


def inverse_mdct(
    mdcts: Any,
    window_fn: Callable[..., Any] | None = vorbis_window,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """Join the signal that `mdct` took, from [..., frames, frame_length // 2]."""
    with name_scope(name, "inverse_mdct"):
        mdcts = convert_to_tensor(mdcts)
        half = int(mdcts.shape[-1].value or 0)
        if norm is None:
            mdcts = mdcts * (0.5 / half)
        elif norm != "ortho":
            raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")
        first, second = array_ops.split(idct(mdcts, type=4, norm=norm), 2, axis=-1)
        pieces = [second, -array_ops.reverse_v2(second, [-1]), -array_ops.reverse_v2(first, [-1]), -first]
        real: Any = array_ops.concat(pieces, -1)
        scale = window_fn(2 * half, dtype=mdcts.dtype.base_dtype) if window_fn is not None else 1.0 / np.sqrt(2)
        return overlap_and_add(real * scale, half)


def _quarter(frame_length: Any) -> int:
    known = constant_value(frame_length) if isinstance(frame_length, Tensor) else frame_length
    if known is None or int(known) % 4:
        raise ValueError("The frame length must be a multiple of 4.")
    return int(known) // 4


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """Compute the cepstral coefficients of [..., mel bins]: as many.

    Raises:
        ValueError: there is no bin.
    """
    with name_scope(name, "mfccs_from_log_mel_spectrograms"):
        x = convert_to_tensor(log_mel_spectrograms)
        size: Any = x.shape[-1].value if x.shape.rank else None
        if size == 0:
            raise ValueError(f"num_mel_bins must be positive. Got: {x}")
        bins = array_ops.shape(x)[-1] if size is None else size
        return dct(x, type=2) * math_ops.rsqrt(math_ops.cast(bins, x.dtype.base_dtype) * 2.0)


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20,
    num_spectrogram_bins: Any = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Make the matrix [spectrogram bins, mel bins] that sums a linear spectrogram to one on the mel scale.

    Raises:
        ValueError: numbers that are not positive, or edges outside of half the sample rate.
    """
    with name_scope(name, "linear_to_mel_weight_matrix") as scope:
        kind = as_dtype(dtype)
        if isinstance(sample_rate, Tensor) and constant_value(sample_rate) is not None:
            sample_rate = float(constant_value(sample_rate))  # type: ignore[arg-type]
        if num_mel_bins <= 0:
            raise ValueError(f"num_mel_bins must be positive. Got: {num_mel_bins}")
        if lower_edge_hertz < 0.0:
            raise ValueError(f"lower_edge_hertz must be non-negative. Got: {lower_edge_hertz}")
        if lower_edge_hertz >= upper_edge_hertz:
            raise ValueError(f"lower_edge_hertz {lower_edge_hertz:.1f} >= upper_edge_hertz {upper_edge_hertz:.1f}")
        if not isinstance(sample_rate, Tensor):
            if sample_rate <= 0.0:
                raise ValueError(f"sample_rate must be positive. Got: {sample_rate}")
            if upper_edge_hertz > sample_rate / 2:
                raise ValueError(
                    "upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). "
                    f"Got {upper_edge_hertz} for sample_rate: {sample_rate}"
                )
        if not kind.is_floating:
            raise ValueError(f"dtype must be a floating point type. Got: {kind}")
        rate = math_ops.cast(sample_rate, kind)
        zero = convert_to_tensor(0.0, kind)
        # The bin of frequency 0 is in no band.
        frequencies = math_ops.linspace(zero, rate / 2.0, num_spectrogram_bins)[1:]
        bins = array_ops.expand_dims(_mel(frequencies), 1)
        first, last = (_mel(convert_to_tensor(edge, kind)) for edge in (lower_edge_hertz, upper_edge_hertz))
        edges = math_ops.linspace(first, last, num_mel_bins + 2)
        lower, center, upper = (array_ops.reshape(edges[i : i + num_mel_bins], [1, num_mel_bins]) for i in range(3))
        rising, falling = (bins - lower) / (center - lower), (upper - bins) / (upper - center)
        weights = math_ops.maximum(zero, math_ops.minimum(rising, falling))
        return array_ops.pad(weights, [[1, 0], [0, 0]], name=scope)


def _mel(hertz: Tensor) -> Tensor:
    return _MEL * math_ops.log(1.0 + hertz / _HERTZ)
