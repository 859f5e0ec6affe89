"""Entries of the linalg family."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import COMPLEX, INDEX

define = OpFamily("linalg")


@define.op(
    "BandedTriangularSolve(matrix: T, rhs: T) -> (output: T); lower: bool = true; adjoint: bool = false; "
    "T: type in {double, float, half, complex64, complex128}",
    renamed={"bands": "matrix"},
    exports=("banded_triangular_solve", "linalg.banded_triangular_solve"),
)
def banded_triangular_solve(
    bands: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve a x = rhs for x, where a is triangular and given by its bands."""


define.op(
    "BatchMatrixSolve(matrix: T, rhs: T) -> (output: T); adjoint: bool = false; T: type in {double, float}",
)


@define.op(
    "Cholesky(input: T) -> (output: T); T: type in {double, float, half, complex64, complex128}",
    exports=("cholesky", "linalg.cholesky"),
)
def cholesky(input: Any, name: str | None = None) -> Tensor:
    """Compute the lower Cholesky factor of (each) positive definite matrix."""


define.op(
    "Lu(input: T) -> (lu: T, p: output_idx_type); T: type in {double, float, half, complex64, complex128}; "
    f"output_idx_type: {INDEX} = int32",
    gradient="none",
)


@define.op(
    "MatrixDeterminant(input: T) -> (output: T); T: type in {half, float, double, complex64, complex128}",
    exports=("matrix_determinant", "linalg.det", "linalg.matrix_determinant"),
)
def matrix_determinant(input: Any, name: str | None = None) -> Tensor:
    """Compute the determinant of (each) square matrix."""


@define.op(
    "MatrixExponential(input: T) -> (output: T); T: type in {double, float, half, complex64, complex128}",
    exports=("expm", "matrix_exponential", "linalg.expm", "linalg.matrix_exponential"),
)
def matrix_exponential(input: Any, name: str | None = None) -> Tensor:
    """Compute exp of (each) square matrix."""


@define.op(
    "MatrixInverse(input: T) -> (output: T); adjoint: bool = false; T: type in {double, float, half, "
    "complex64, complex128}",
    exports=("matrix_inverse", "linalg.inv", "linalg.matrix_inverse"),
)
def matrix_inverse(input: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Invert (each) square matrix."""


@define.op(
    f"MatrixLogarithm(input: T) -> (output: T); T: {COMPLEX}",
    exports=("logm", "matrix_logarithm", "linalg.logm", "linalg.matrix_logarithm"),
)
def matrix_logarithm(input: Any, name: str | None = None) -> Tensor:
    """Compute the principal logarithm of (each) square complex matrix."""


@define.op(
    "MatrixSolve(matrix: T, rhs: T) -> (output: T); adjoint: bool = false; T: type in {double, float, half, "
    "complex64, complex128}",
    exports=("matrix_solve", "linalg.matrix_solve", "linalg.solve"),
)
def matrix_solve(matrix: Any, rhs: Any, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solve a x = rhs for x."""


@define.op(
    "MatrixSquareRoot(input: T) -> (output: T); T: type in {double, float, half, complex64, complex128}",
    exports=("matrix_square_root", "sqrtm", "linalg.matrix_square_root", "linalg.sqrtm"),
)
def matrix_square_root(input: Any, name: str | None = None) -> Tensor:
    """Compute the matrix whose square is given."""


@define.op(
    "MatrixTriangularSolve(matrix: T, rhs: T) -> (output: T); lower: bool = true; adjoint: bool = false; "
    "T: type in {bfloat16, double, float, half, complex64, complex128}",
    exports=("matrix_triangular_solve", "linalg.matrix_triangular_solve", "linalg.triangular_solve"),
)
def matrix_triangular_solve(
    matrix: Any, rhs: Any, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve a x = rhs for x, where a is triangular."""


define.op(
    "TridiagonalMatMul(superdiag: T, maindiag: T, subdiag: T, rhs: T) -> (output: T); T: type in {double, "
    "float, complex64, complex128}",
    shape=lambda op: [op.inputs[-1].shape],
)


define.op(
    "TridiagonalSolve(diagonals: T, rhs: T) -> (output: T); partial_pivoting: bool = true; "
    "perturb_singular: bool = false; T: type in {double, float, complex64, complex128}",
    shape=lambda op: [op.inputs[-1].shape],
)
