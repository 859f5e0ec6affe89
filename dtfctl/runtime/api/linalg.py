"""`tf.linalg`."""

from __future__ import annotations

from dtfctl.runtime.api._shared.linalg import *
from dtfctl.runtime.api._shared.matrices import *
from dtfctl.runtime.ops.array_ops import (
    matrix_band_part as band_part,
    matrix_diag as diag,
    matrix_diag_part as diag_part,
    matrix_set_diag as set_diag,
    matrix_transpose as transpose,
)
from dtfctl.runtime.ops.linalg_ops import (
    matrix_inverse as inv,
    matrix_rank,
    matrix_solve as solve,
    matrix_solve_ls as lstsq,
    normalize,
    pinv,
    tensor_diag,
    tensor_diag_part,
    triangular_solve,
    tridiagonal_matmul,
)
from dtfctl.runtime.ops.nn_ops import (
    l2_normalize,
)
from dtfctl.runtime.ops.op_defs.linalg import matrix_determinant as det
