"""`tf.contrib.signal`: what is `tf.signal` now."""

from __future__ import annotations

from dtfctl.runtime.api.signal import (
    frame,
    hamming_window,
    hann_window,
    inverse_stft,
    inverse_stft_window_fn,
    linear_to_mel_weight_matrix,
    mfccs_from_log_mel_spectrograms,
    overlap_and_add,
    stft,
)

__all__ = [
    "frame",
    "hamming_window",
    "hann_window",
    "inverse_stft",
    "inverse_stft_window_fn",
    "linear_to_mel_weight_matrix",
    "mfccs_from_log_mel_spectrograms",
    "overlap_and_add",
    "stft",
]
