"""`tf.signal`: Fourier transforms, whole and short-time, and windows."""

from __future__ import annotations

from dtfctl.runtime.api._exported.signal import *
from dtfctl.runtime.api._shared.spectral import *
from dtfctl.runtime.ops.signal_ops import (
    frame,
    hamming_window,
    hann_window,
    inverse_stft,
    inverse_stft_window_fn,
    overlap_and_add,
    stft,
)
