"""Names that `tf` and `tf.quantization` have."""

from dtfctl.runtime.ops.array_ops import dequantize, quantize
