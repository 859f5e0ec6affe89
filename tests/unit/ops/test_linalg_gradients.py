"""Gradients of the linalg family agree with numeric ones."""

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.ops import linalg_ops as linalg, math_ops as m
from dtfctl.runtime.ops.op_defs.linalg import (
    matrix_determinant,
    matrix_inverse,
    matrix_solve,
    matrix_square_root,
)
from dtfctl.runtime.ops.tridiagonal import tridiagonal_solve
from tests.unit.ops.gradient_check import check_gradient, complex_, real

EYE = np.eye(3) * 2


def _definite(x: Any) -> Any:
    return m.matmul(x, x, transpose_b=True) + constant(EYE)


@pytest.mark.parametrize("make", [real, complex_])
@pytest.mark.parametrize("adjoint", [False, True])
def test_inverses_and_solutions(make: Any, adjoint: bool) -> None:
    check_gradient(lambda x: matrix_inverse(x, adjoint=adjoint), make(2, 3, 3) + EYE)
    check_gradient(lambda x, y: matrix_solve(x, y, adjoint=adjoint), make(3, 3) + EYE, make(3, 2))
    for lower in (True, False):
        check_gradient(
            lambda x, y, lower=lower: linalg.matrix_triangular_solve(x, y, lower, adjoint),
            make(2, 3, 3) + EYE,
            make(3, 2),
        )


def test_determinants() -> None:
    check_gradient(matrix_determinant, real(3, 3) + EYE)
    check_gradient(lambda x: linalg.log_matrix_determinant(x)[1], real(3, 3) + EYE)
    check_gradient(lambda x: linalg.logdet(_definite(x)), real(3, 3))


def test_factorizations() -> None:
    check_gradient(lambda x: linalg.cholesky(_definite(x)), real(3, 3))
    check_gradient(lambda x, y: linalg.cholesky_solve(linalg.cholesky(_definite(x)), y), real(3, 3), real(3, 2))
    check_gradient(lambda x: linalg.self_adjoint_eigvals(_definite(x)), real(3, 3))
    check_gradient(lambda x: m.square(linalg.self_adjoint_eig(_definite(x))[1]), real(3, 3))
    check_gradient(lambda x: linalg.svd(x, compute_uv=False), real(4, 3))
    for shape in ((3, 3), (4, 3), (3, 4)):
        check_gradient(lambda x: [m.square(t) for t in linalg.svd(x)], real(*shape))
    for shape in ((3, 3), (4, 3)):
        check_gradient(lambda x: list(linalg.qr(x)), real(*shape))
    check_gradient(lambda x: matrix_square_root(_definite(x)), real(3, 3))


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (3, 4)], ids=str)
def test_least_squares(shape: tuple[int, int]) -> None:
    for l2 in (0.0, 0.3):
        check_gradient(
            lambda x, y, l2=l2: linalg.matrix_solve_ls(x, y, l2), real(*shape) + np.eye(*shape), real(shape[0], 2)
        )


def test_tridiagonal() -> None:
    diagonals = real(3, 5)
    diagonals[1] += 4
    check_gradient(tridiagonal_solve, diagonals, real(5, 2))


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii->", (3, 3)),
    ("...ij,...jk->...ik", (2, 2, 3), (3, 4)),
    ("...ij,...jk->...ik", (2, 2, 3), (1, 3, 4)),
    ("ab...,b...->a...", (2, 3, 4), (3, 4)),
    ("iij->j", (2, 2, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("abc,c->a", (2, 3, 4), (4,)),
    ("ij,jk", (2, 3), (3, 2)),
]


@pytest.mark.parametrize("case", EINSUMS, ids=str)
def test_einsum(case: Any) -> None:
    equation, *shapes = case
    arrays = [real(*s, seed=i) for i, s in enumerate(shapes)]
    check_gradient(lambda *x: linalg.einsum(equation, *x), *arrays)


def test_norms() -> None:
    check_gradient(linalg.norm, real(2, 3))
    check_gradient(lambda x: linalg.norm(x, 1, axis=1), real(2, 3))
    check_gradient(lambda x: linalg.norm(x, "fro", axis=[0, 1], keepdims=True), real(2, 3))
    check_gradient(lambda x: linalg.norm(x, 3, axis=1), real(2, 3))
