"""Names that `tf.signal` and `tf.spectral` have."""

from dtfctl.runtime.ops.cosine_transforms import dct, idct
