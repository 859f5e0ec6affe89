"""Names that `tf`, `tf.image` and `tf.random` have."""

from dtfctl.runtime.ops.random_ops import random_crop
