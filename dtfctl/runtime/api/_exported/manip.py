"""Names of `tf.manip` that entries of ops export."""

# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.

from dtfctl.runtime.ops.op_defs.array import (
    batch_to_space_nd,
    roll,
    space_to_batch_nd,
)
