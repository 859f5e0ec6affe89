"""Names that `tf`, `tf.dtypes` and `tf.strings` have."""

from dtfctl.runtime.ops.op_defs.string import as_string
