"""Names that `tf.math` and `tf.nn` have."""

from dtfctl.runtime.ops.nn_ops import in_top_k, log_softmax, softmax, top_k, zero_fraction
