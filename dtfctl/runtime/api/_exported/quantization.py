"""Names of `tf.quantization` that entries of ops export."""

# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.

from dtfctl.runtime.ops.op_defs.quantization import (
    fake_quant_with_min_max_args,
    fake_quant_with_min_max_args_gradient,
    fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_gradient,
    fake_quant_with_min_max_vars_per_channel,
    fake_quant_with_min_max_vars_per_channel_gradient,
)
