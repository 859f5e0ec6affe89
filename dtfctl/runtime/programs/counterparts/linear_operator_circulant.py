"""`tensorflow.python.ops.linalg.linear_operator_circulant`, and the same of Toeplitz operators."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.framework.operation import Tensor

__all__: list[str] = []

_FFT_OP = {1: tf.signal.fft, 2: tf.signal.fft2d, 3: tf.signal.fft3d}
_IFFT_OP = {1: tf.signal.ifft, 2: tf.signal.ifft2d, 3: tf.signal.ifft3d}


def _to_complex(x: Any) -> Tensor:
    """Cast to the complex type of the same precision."""
    found = tf.convert_to_tensor(x)
    wide = found.dtype.base_dtype in (tf.float64, tf.complex128)
    return tf.cast(found, tf.complex128 if wide else tf.complex64)
