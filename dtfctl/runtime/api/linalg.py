"""`tf.linalg`."""

from __future__ import annotations

from dtfctl.runtime.api._exported.linalg import *
from dtfctl.runtime.api._shared.linalg import *
from dtfctl.runtime.api._shared.matrices import *
from dtfctl.runtime.api._shared.normalizing import *
from dtfctl.runtime.ops.array_ops import (
    matrix_band_part as band_part,
    matrix_diag as diag,
    matrix_diag_part as diag_part,
)
from dtfctl.runtime.ops.linalg_ops import matrix_rank, normalize, pinv
from dtfctl.runtime.ops.linear_operators.base import LinearOperator
from dtfctl.runtime.ops.linear_operators.blocks import LinearOperatorBlockDiag, LinearOperatorBlockLowerTriangular
from dtfctl.runtime.ops.linear_operators.circulant import (
    LinearOperatorCirculant,
    LinearOperatorCirculant2D,
    LinearOperatorCirculant3D,
    LinearOperatorToeplitz,
)
from dtfctl.runtime.ops.linear_operators.combined import (
    LinearOperatorAdjoint,
    LinearOperatorComposition,
    LinearOperatorInversion,
)
from dtfctl.runtime.ops.linear_operators.dense import (
    LinearOperatorFullMatrix,
    LinearOperatorLowerTriangular,
    LinearOperatorTridiag,
)
from dtfctl.runtime.ops.linear_operators.diagonal import (
    LinearOperatorDiag,
    LinearOperatorIdentity,
    LinearOperatorScaledIdentity,
    LinearOperatorZeros,
)
from dtfctl.runtime.ops.linear_operators.structured import (
    LinearOperatorHouseholder,
    LinearOperatorKronecker,
    LinearOperatorLowRankUpdate,
    LinearOperatorPermutation,
)
from dtfctl.runtime.ops.tridiagonal import tridiagonal_matmul, tridiagonal_solve

lstsq = matrix_solve_ls
transpose = matrix_transpose
