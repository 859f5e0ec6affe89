"""Names that `tf`, `tf.linalg` and `tf.math` have."""

from dtfctl.runtime.ops.math_ops import matmul, matvec, tensordot, trace
