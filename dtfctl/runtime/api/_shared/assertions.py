"""Names that `tf`, `tf.debugging` and `tf.math` have."""

from dtfctl.runtime.ops.check_ops import is_non_decreasing, is_strictly_increasing
