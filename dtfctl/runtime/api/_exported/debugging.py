"""Names of `tf.debugging` that entries of ops export."""

# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.

from dtfctl.runtime.ops.op_defs.array import check_numerics
from dtfctl.runtime.ops.op_defs.elementwise import (
    is_finite,
    is_inf,
    is_nan,
)
