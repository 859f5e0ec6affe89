"""`tf.linalg.LinearOperator*` against the matrices they stand for."""

from __future__ import annotations

import numpy as np
import pytest

import dtfctl.runtime as tf

RNG = np.random.RandomState(5)
MATRIX = RNG.randn(2, 3, 3) + 3 * np.eye(3)
RIGHT, VECTOR = RNG.randn(2, 3, 4), RNG.randn(2, 3)


@pytest.mark.parametrize(
    ("kind", "given", "whole"),
    [
        ("FullMatrix", MATRIX, MATRIX),
        ("LowerTriangular", MATRIX, np.tril(MATRIX)),
        ("Diag", np.diagonal(MATRIX, axis1=1, axis2=2), np.eye(3) * MATRIX),
    ],
)
def test_an_operator_does_what_its_matrix_does(kind: str, given: np.ndarray, whole: np.ndarray) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        op = getattr(tf.linalg, f"LinearOperator{kind}")(given)
        assert op.shape.as_list() == [2, 3, 3] and op.domain_dimension == 3 and op.dtype == tf.float64
        found = session.run(
            {
                "whole": op.to_dense(),
                "times": op.matmul(RIGHT),
                "adjoint": op.matmul(RIGHT, adjoint=True),
                "transposed": op.matmul(np.swapaxes(RIGHT, 1, 2), adjoint_arg=True),
                "vector": op.matvec(VECTOR),
                "solved": op.solve(RIGHT),
                "solved_adjoint": op.solve(RIGHT, adjoint=True),
                "solved_vector": op.solvevec(VECTOR),
                "determinant": op.determinant(),
                "log": op.log_abs_determinant(),
                "trace": op.trace(),
                "sum": op.add_to_tensor(MATRIX),
                "shape": op.shape_tensor(),
            }
        )
    turned = np.swapaxes(whole, 1, 2)
    wanted = {
        "whole": whole,
        "times": whole @ RIGHT,
        "adjoint": turned @ RIGHT,
        "transposed": whole @ RIGHT,
        "vector": (whole @ VECTOR[..., None])[..., 0],
        "solved": np.linalg.solve(whole, RIGHT),
        "solved_adjoint": np.linalg.solve(turned, RIGHT),
        "solved_vector": np.linalg.solve(whole, VECTOR[..., None])[..., 0],
        "determinant": np.linalg.det(whole),
        "log": np.log(np.abs(np.linalg.det(whole))),
        "trace": np.trace(whole, axis1=1, axis2=2),
        "sum": whole + MATRIX,
        "shape": [2, 3, 3],
    }
    for key, want in wanted.items():
        np.testing.assert_allclose(found[key], want, rtol=1e-8, err_msg=key)
