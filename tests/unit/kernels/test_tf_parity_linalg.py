"""Linear algebra on infinities and singular systems; values from TensorFlow 2.21."""

from __future__ import annotations

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from tests.support.interpreter import run_op

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("matrix", "sign", "log", "det"),
    [
        ([[INF, 1], [1, 1]], 1, INF, INF),
        ([[-INF, 1], [1, 1]], -1, INF, -INF),
        ([[INF, INF], [1, 1]], NAN, NAN, NAN),
        ([[NAN, 1], [1, 1]], NAN, NAN, NAN),
    ],
)
def test_determinants_of_infinities(matrix: list[list[float]], sign: float, log: float, det: float) -> None:
    x = np.array([matrix, np.eye(2) * 2], np.float32)
    np.testing.assert_array_equal(run_op("MatrixDeterminant", x), [det, 4])
    got_sign, got_log = run_op("LogMatrixDeterminant", x)
    np.testing.assert_array_equal(got_sign, [sign, 1])
    np.testing.assert_allclose(got_log, [log, np.log(4)], rtol=1e-6)


@pytest.mark.parametrize("pivoting", [True, False])
def test_singular_tridiagonal_systems_give_nan(pivoting: bool) -> None:
    diagonals = np.array([[[3, 0], [1, 3], [0, 1]], [[0, 0], [2, 4], [0, 0]]], np.float32)
    got = run_op(
        "TridiagonalSolve", diagonals, np.array([[[1], [4]], [[1], [4]]], np.float32), partial_pivoting=pivoting
    )
    assert np.isnan(got[0]).all()
    assert got[1].tolist() == [[0.5], [1.0]]
    single = run_op(
        "TridiagonalSolve", np.zeros((3, 1), np.float32), np.ones((1, 2), np.float32), partial_pivoting=pivoting
    )
    assert np.isnan(single).all()


def test_eigenvalues_have_the_complex_type_of_the_input() -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid output dtype"):
        run_op("Eig", np.eye(2, dtype=np.float32), Tout=dtypes.complex128, compute_v=True)


@pytest.mark.parametrize("op", ["RFFT2D", "IRFFT2D"])
def test_negative_lengths_of_transforms(op: str) -> None:
    x = np.zeros((6, 0), np.float32 if op == "RFFT2D" else np.complex64)
    with pytest.raises(InvalidArgumentError, match=r"fft_length\[1\] must >= 0, but got: -1"):
        run_op(op, x, np.array([1, -1], np.int32))
