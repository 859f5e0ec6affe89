"""`tf.bitwise`."""

from __future__ import annotations

from dtfctl.runtime.ops.math_ops import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    invert,
    left_shift,
    right_shift,
)
