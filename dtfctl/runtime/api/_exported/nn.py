"""Names of `tf.nn` that entries of ops export."""

# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.

from dtfctl.runtime.ops.op_defs.array import (
    depth_to_space,
    space_to_depth,
)
from dtfctl.runtime.ops.op_defs.elementwise import (
    sigmoid,
    tanh,
)
from dtfctl.runtime.ops.op_defs.nn import (
    dilation2d,
    elu,
    l2_loss,
    local_response_normalization,
    local_response_normalization as lrn,
    nth_element,
    relu,
    relu6,
    selu,
    softplus,
    softsign,
)
