"""Names that `tf`, `tf.io` and `tf.strings` have."""

from dtfctl.runtime.ops.op_defs.string import decode_base64, encode_base64
