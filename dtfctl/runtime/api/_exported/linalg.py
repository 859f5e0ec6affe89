"""Names of `tf.linalg` that entries of ops export."""

# Made by tools/gen_api_exports.py from the `exports` of the entries; do not edit.

from dtfctl.runtime.ops.op_defs.array import (
    diag as tensor_diag,
    diag_part as tensor_diag_part,
    matrix_set_diag as set_diag,
)
from dtfctl.runtime.ops.op_defs.linalg import (
    banded_triangular_solve,
    cholesky,
    matrix_determinant,
    matrix_determinant as det,
    matrix_exponential,
    matrix_exponential as expm,
    matrix_inverse,
    matrix_inverse as inv,
    matrix_logarithm,
    matrix_logarithm as logm,
    matrix_solve,
    matrix_solve as solve,
    matrix_square_root,
    matrix_square_root as sqrtm,
    matrix_triangular_solve,
    matrix_triangular_solve as triangular_solve,
)
from dtfctl.runtime.ops.op_defs.math import cross
