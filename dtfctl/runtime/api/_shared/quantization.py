"""Names that `tf` and `tf.quantization` have."""

from dtfctl.runtime.ops.array_ops import (
    dequantize,
    fake_quant_with_min_max_args,
    fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_per_channel,
    quantize,
)
