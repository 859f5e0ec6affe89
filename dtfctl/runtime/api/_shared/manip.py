"""Names that `tf` and `tf.manip` have."""

from dtfctl.runtime.ops.array_ops import (
    batch_to_space_nd,
    gather_nd,
    reshape,
    reverse,
    roll,
    scatter_nd,
    space_to_batch_nd,
    tile,
)
