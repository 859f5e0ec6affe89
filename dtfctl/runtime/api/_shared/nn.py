"""Names that `tf` and `tf.nn` have."""

from dtfctl.runtime.ops.array_ops import depth_to_space, space_to_batch, space_to_depth
