"""Names that `tf`, `tf.dtypes` and `tf.math` have."""

from dtfctl.runtime.ops.math_ops import cast, complex, saturate_cast
