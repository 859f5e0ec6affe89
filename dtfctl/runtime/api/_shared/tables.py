"""Names that `tf`, `tf.initializers` and `tf.lookup` have."""

from dtfctl.runtime.ops.lookup_ops import tables_initializer
