"""Names that `tf`, `tf.bitwise` and `tf.math` have."""

from dtfctl.runtime.ops.math_ops import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    invert,
    left_shift,
    right_shift,
)
