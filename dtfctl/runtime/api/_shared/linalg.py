"""Names that `tf` and `tf.linalg` have."""

from dtfctl.runtime.ops.array_ops import eye, matrix_transpose
from dtfctl.runtime.ops.clip_ops import global_norm
from dtfctl.runtime.ops.linalg_ops import (
    adjoint,
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
    matrix_solve_ls,
    norm,
    qr,
    self_adjoint_eig,
    self_adjoint_eigvals,
    slogdet,
    sqrtm,
    svd,
)
from dtfctl.runtime.ops.op_defs.linalg import (
    banded_triangular_solve,
    cholesky,
    matrix_determinant,
    matrix_exponential,
    matrix_inverse,
    matrix_logarithm,
    matrix_solve,
    matrix_square_root,
    matrix_triangular_solve,
    tridiagonal_solve,
)
