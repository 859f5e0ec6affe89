"""`tf.linalg`."""

from __future__ import annotations

from dtfctl.runtime.ops.array_ops import (
    eye,
    matrix_band_part as band_part,
    matrix_diag as diag,
    matrix_diag_part as diag_part,
    matrix_set_diag as set_diag,
    matrix_transpose,
    matrix_transpose as transpose,
)
from dtfctl.runtime.ops.clip_ops import global_norm
from dtfctl.runtime.ops.linalg_ops import (
    adjoint,
    cholesky,
    cholesky_solve,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    einsum,
    expm,
    log_matrix_determinant,
    logdet,
    logm,
    lu,
    matrix_inverse,
    matrix_inverse as inv,
    matrix_rank,
    matrix_solve,
    matrix_solve as solve,
    matrix_solve_ls,
    matrix_solve_ls as lstsq,
    matrix_triangular_solve,
    norm,
    normalize,
    pinv,
    qr,
    self_adjoint_eig,
    self_adjoint_eigvals,
    slogdet,
    sqrtm,
    svd,
    tensor_diag,
    tensor_diag_part,
    triangular_solve,
    tridiagonal_matmul,
    tridiagonal_solve,
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
from dtfctl.runtime.ops.op_defs.linalg import (
    banded_triangular_solve,
    matrix_determinant,
    matrix_determinant as det,
    matrix_exponential,
    matrix_logarithm,
    matrix_square_root,
)
