"""`tf.signal`: Fourier transforms, whole and short-time, and windows."""

from __future__ import annotations

from dtfctl.runtime.api._exported.signal import *
from dtfctl.runtime.api._shared.cosines import *
from dtfctl.runtime.api._shared.spectral import *
from dtfctl.runtime.ops.cosine_transforms import (
    inverse_mdct,
    linear_to_mel_weight_matrix,
    mdct,
    mfccs_from_log_mel_spectrograms,
)
from dtfctl.runtime.ops.signal_ops import (
    fftshift,
    frame,
    hamming_window,
    hann_window,
    ifftshift,
    inverse_stft,
    inverse_stft_window_fn,
    kaiser_bessel_derived_window,
    kaiser_window,
    overlap_and_add,
    stft,
    vorbis_window,
)
