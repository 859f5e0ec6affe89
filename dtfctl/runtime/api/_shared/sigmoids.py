"""Names that `tf`, `tf.math` and `tf.nn` have."""

from dtfctl.runtime.ops.math_ops import sigmoid, tanh
