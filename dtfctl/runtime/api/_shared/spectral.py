"""Names that `tf`, `tf.math`, `tf.signal` and `tf.spectral` have."""

from dtfctl.runtime.ops.math_ops import irfft, irfft2d, irfft3d, rfft, rfft2d, rfft3d
