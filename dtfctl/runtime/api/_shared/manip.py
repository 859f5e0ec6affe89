"""Names that `tf` and `tf.manip` have."""

from dtfctl.runtime.ops.array_ops import gather_nd, reshape, reverse, scatter_nd, tile
