"""Names that `tf.linalg`, `tf.math` and `tf.nn` have."""

from dtfctl.runtime.ops.nn_ops import l2_normalize
