"""Names that `tf` and `tf.compat` have."""

from dtfctl.runtime.framework.tensor_shape import dimension_at_index
