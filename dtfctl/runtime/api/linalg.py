"""`tf.linalg`."""

from __future__ import annotations

from dtfctl.runtime.ops.array_ops import (
    eye,
    matrix_band_part as band_part,
    matrix_diag as diag,
    matrix_diag_part as diag_part,
    matrix_set_diag as set_diag,
    matrix_transpose,
)
from dtfctl.runtime.ops.math_ops import (
    cross,
    matmul,
    matvec,
    tensordot,
    trace,
)
from dtfctl.runtime.ops.nn_ops import (
    l2_normalize,
)
