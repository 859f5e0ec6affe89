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
    log_matrix_determinant,
    logdet,
    lu,
    matrix_solve_ls,
    norm,
    qr,
    self_adjoint_eig,
    self_adjoint_eigvals,
    slogdet,
    svd,
)
