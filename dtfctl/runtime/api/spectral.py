"""`tf.spectral`: the transforms of `tf.signal` under their older name."""

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
