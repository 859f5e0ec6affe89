"""Names that `tf` and `tf.linalg` have."""

from dtfctl.runtime.ops.array_ops import eye, matrix_transpose
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
    matrix_solve,
    matrix_solve_ls,
    matrix_triangular_solve,
    norm,
    qr,
    self_adjoint_eig,
    self_adjoint_eigvals,
    slogdet,
    sqrtm,
    svd,
    tridiagonal_solve,
)
from dtfctl.runtime.ops.op_defs.linalg import (
    banded_triangular_solve,
    matrix_determinant,
    matrix_exponential,
    matrix_logarithm,
    matrix_square_root,
)
