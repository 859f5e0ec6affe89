"""Names that `tf` and `tf.nn` have."""

from dtfctl.runtime.ops.array_ops import space_to_batch
