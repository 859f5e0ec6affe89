"""`tf.signal`: Fourier transforms, whole and short-time, and windows."""

from __future__ import annotations

from dtfctl.runtime.ops.math_ops import (
    fft,
    fft2d,
    fft3d,
    ifft,
    ifft2d,
    ifft3d,
    irfft,
    irfft2d,
    irfft3d,
    rfft,
    rfft2d,
    rfft3d,
)
from dtfctl.runtime.ops.signal_ops import (
    frame,
    hamming_window,
    hann_window,
    inverse_stft,
    inverse_stft_window_fn,
    overlap_and_add,
    stft,
)
