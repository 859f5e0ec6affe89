"""`tf.linalg.LinearOperator*`: every result by an operator's form is that of the whole matrix, by numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

L = tf.linalg
RANDOM = np.random.RandomState(7)
Given = Callable[[Any], Any]


def square(n: int, *batch: int) -> np.ndarray[Any, Any]:
    return RANDOM.randn(*batch, n, n) + 3 * np.eye(n)


def definite(n: int) -> np.ndarray[Any, Any]:
    root = square(n)
    return np.asarray(root @ root.T)


def complex_square(n: int) -> np.ndarray[Any, Any]:
    return square(n) + 1j * RANDOM.randn(n, n)


def circulant(spectrum: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Make the matrix column by column: the kernel moved round."""
    kernel = np.fft.ifftn(spectrum)
    moved = [np.roll(kernel, place, range(spectrum.ndim)).ravel() for place in np.ndindex(spectrum.shape)]
    return np.stack(moved, -1)


def toeplitz(col: np.ndarray[Any, Any], row: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    n = len(col)
    return np.array([[col[i - j] if i >= j else row[j - i] for j in range(n)] for i in range(n)])


A, B, C, P = square(3, 2), square(3), square(2), definite(3)
Z = complex_square(3)
D, U, V = RANDOM.rand(3) + 1, RANDOM.randn(3, 2), RANDOM.randn(3, 2)
PERM = np.array([2, 0, 1])
AXIS = RANDOM.randn(3)
COL, ROW = np.array([5.0, 1, -2]), np.array([5.0, 2, 3])
THREE = RANDOM.randn(3, 4) + np.array([[0.0], [5], [0]])
TRI = np.diag(THREE[1]) + np.diag(THREE[0, :-1], 1) + np.diag(THREE[2, 1:], -1)
S1, S2 = RANDOM.randn(4) + 3, RANDOM.randn(2, 3) + 3
BLOCK = np.block([[B, np.zeros((3, 2))], [U.T, C]])
REAL = {"input_output_dtype": tf.complex128}

CASES: dict[str, tuple[Callable[[Given], Any], np.ndarray[Any, Any]]] = {
    "full, in a batch": (lambda t: L.LinearOperatorFullMatrix(t(A)), A),
    "full, complex": (lambda t: L.LinearOperatorFullMatrix(t(Z)), Z),
    "full, positive definite": (
        lambda t: L.LinearOperatorFullMatrix(t(P), is_self_adjoint=True, is_positive_definite=True),
        P,
    ),
    "diag": (lambda t: L.LinearOperatorDiag(t(D)), np.diag(D)),
    "lower triangular": (lambda t: L.LinearOperatorLowerTriangular(t(B)), np.tril(B)),
    "tridiagonal, compact": (lambda t: L.LinearOperatorTridiag(t(THREE)), TRI),
    "tridiagonal, sequence": (
        lambda t: L.LinearOperatorTridiag([t(item) for item in THREE], diagonals_format="sequence"),
        TRI,
    ),
    "tridiagonal, matrix": (lambda t: L.LinearOperatorTridiag(t(TRI), diagonals_format="matrix"), TRI),
    "identity": (lambda t: L.LinearOperatorIdentity(3, batch_shape=[2], dtype=tf.float64), np.stack([np.eye(3)] * 2)),
    "scaled identity": (
        lambda t: L.LinearOperatorScaledIdentity(3, t(np.array([2.0, -1]))),
        np.array([2.0, -1])[:, None, None] * np.eye(3),
    ),
    "householder": (
        lambda t: L.LinearOperatorHouseholder(t(AXIS)),
        np.eye(3) - 2 * np.outer(AXIS, AXIS) / (AXIS @ AXIS),
    ),
    "permutation": (lambda t: L.LinearOperatorPermutation(t(PERM), dtype=tf.float64), np.eye(3)[PERM]),
    "kronecker": (
        lambda t: L.LinearOperatorKronecker([L.LinearOperatorFullMatrix(t(item)) for item in (B, C)]),
        np.kron(B, C),
    ),
    "update of low rank": (
        lambda t: L.LinearOperatorLowRankUpdate(
            L.LinearOperatorDiag(t(D), is_non_singular=True), t(U), t(np.array([2.0, 3])), t(V)
        ),
        np.diag(D) + U @ np.diag([2.0, 3]) @ V.T,
    ),
    "symmetric update of low rank": (
        lambda t: L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag(t(D), is_positive_definite=True), t(U)),
        np.diag(D) + U @ U.T,
    ),
    "circulant": (lambda t: L.LinearOperatorCirculant(t(S1), **REAL), circulant(S1)),
    "circulant 2D": (lambda t: L.LinearOperatorCirculant2D(t(S2), **REAL), circulant(S2)),
    "toeplitz": (lambda t: L.LinearOperatorToeplitz(t(COL), t(ROW)), toeplitz(COL, ROW)),
    "adjoint": (lambda t: L.LinearOperatorFullMatrix(t(Z)).adjoint(), Z.conj().T),
    "inversion": (lambda t: L.LinearOperatorFullMatrix(t(B)).inverse(), np.linalg.inv(B)),
    "composition": (
        lambda t: L.LinearOperatorComposition([L.LinearOperatorFullMatrix(t(A)), L.LinearOperatorFullMatrix(t(B))]),
        A @ B,
    ),
    "block diag": (
        lambda t: L.LinearOperatorBlockDiag([L.LinearOperatorFullMatrix(t(item), is_square=True) for item in (B, C)]),
        np.block([[B, np.zeros((3, 2))], [np.zeros((2, 3)), C]]),
    ),
    "block lower triangular": (
        lambda t: L.LinearOperatorBlockLowerTriangular(
            [
                [L.LinearOperatorFullMatrix(t(B), is_square=True)],
                [L.LinearOperatorFullMatrix(t(U.T)), L.LinearOperatorFullMatrix(t(C), is_square=True)],
            ]
        ),
        BLOCK,
    ),
}  # fmt: skip


@pytest.fixture
def session() -> Iterator[Any]:
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


@pytest.mark.parametrize("shapes", ["known", "unknown"])
@pytest.mark.parametrize("case", CASES)
def test_an_operator_does_what_its_whole_matrix_does(session: Any, case: str, shapes: str) -> None:
    make, dense = CASES[case]
    feeds: dict[Any, Any] = {}

    def given(value: Any) -> Any:
        if shapes == "known":
            return tf.constant(value)
        held = tf.placeholder(value.dtype)
        feeds[held] = value
        return held

    operator = make(given)
    n = dense.shape[-1]
    x = RANDOM.randn(n, 2).astype(dense.dtype)
    x = x.astype(operator.dtype.as_numpy_dtype)
    turned = dense.conj().swapaxes(-1, -2)
    solved = np.linalg.solve(dense, np.broadcast_to(x, (*dense.shape[:-2], n, 2)))
    wanted = {
        "dense": dense,
        "product": dense @ x,
        "adjoint product": turned @ x,
        "product with an adjoint": dense @ x,
        "vector": dense @ x[:, 0],
        "solution": solved,
        "adjoint solution": np.linalg.solve(turned, np.broadcast_to(x, solved.shape)),
        "determinant": np.linalg.det(dense),
        "logarithm": np.log(np.abs(np.linalg.det(dense))),
        "trace": np.trace(dense, axis1=-2, axis2=-1),
        "diagonal": np.diagonal(dense, axis1=-2, axis2=-1),
        "adjoint": turned,
        "inverse": np.linalg.inv(dense),
        "square": dense @ dense,
        "quotient": np.broadcast_to(np.eye(n), dense.shape),
        "sum": dense + np.eye(n),
        "shape": np.array(dense.shape),
    }
    got = session.run(
        {
            "dense": operator.to_dense(),
            "product": operator.matmul(x),
            "adjoint product": operator.matmul(x, adjoint=True),
            "product with an adjoint": operator.matmul(x.conj().T, adjoint_arg=True),
            "vector": operator.matvec(x[:, 0]),
            "solution": operator.solve(x),
            "adjoint solution": operator.solve(x, adjoint=True),
            "determinant": operator.determinant(),
            "logarithm": operator.log_abs_determinant(),
            "trace": operator.trace(),
            "diagonal": operator.diag_part(),
            "adjoint": operator.adjoint().to_dense(),
            "inverse": operator.inverse().to_dense(),
            "square": (operator @ operator).to_dense(),
            "quotient": operator.solve(operator).to_dense(),
            "sum": operator.add_to_tensor(np.eye(n).astype(x.dtype)),
            "shape": operator.shape_tensor(),
        },
        feeds,
    )
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-6, atol=1e-8, err_msg=name)
    if shapes == "known":
        assert operator.shape.as_list() == list(dense.shape)


@pytest.mark.parametrize(
    "left, right, kind",
    [("diag", "diag", "Diag"), ("diag", "lower triangular", "LowerTriangular"), ("circulant", "circulant", "Circulant"),
     ("block diag", "block diag", "BlockDiag"), ("full, positive definite", "diag", "Composition")],
)  # fmt: skip
def test_a_product_keeps_the_form(session: Any, left: str, right: str, kind: str) -> None:
    product = CASES[left][0](tf.constant).matmul(CASES[right][0](tf.constant))
    assert type(product).__name__ == f"LinearOperator{kind}"
    np.testing.assert_allclose(session.run(product.to_dense()), CASES[left][1] @ CASES[right][1], atol=1e-8)


def test_blocks_take_a_tensor_each(session: Any) -> None:
    for case in ("block diag", "block lower triangular"):
        make, dense = CASES[case]
        operator, x = make(tf.constant), RANDOM.randn(5, 2)
        parts = [tf.constant(x[:3]), tf.constant(x[3:])]
        product, solution = session.run([operator.matmul(parts), operator.solve(parts)])
        np.testing.assert_allclose(np.concatenate(product), dense @ x)
        np.testing.assert_allclose(np.concatenate(solution), np.linalg.solve(dense, x))


def test_eigenvalues_and_factors_of_promised_forms(session: Any) -> None:
    promise = {"is_self_adjoint": True, "is_positive_definite": True}
    whole = L.LinearOperatorFullMatrix(P, **promise)
    kronecker = L.LinearOperatorKronecker([whole, L.LinearOperatorDiag(D, is_positive_definite=True)])
    factor = kronecker.cholesky()
    values, eigenvalues, lower = session.run([kronecker.to_dense(), kronecker.eigvals(), factor.to_dense()])
    np.testing.assert_allclose(eigenvalues, np.linalg.eigvalsh(values))
    np.testing.assert_allclose(lower @ lower.T, values)
    np.testing.assert_allclose(session.run(whole.cond()), np.linalg.cond(P))
    with pytest.raises(ValueError, match="Cholesky"):
        L.LinearOperatorFullMatrix(P).cholesky()
    with pytest.raises(NotImplementedError, match="self-adjoint"):
        L.LinearOperatorFullMatrix(P).eigvals()


@pytest.mark.parametrize("name", CASES)
def test_condition_numbers_are_real(name: str) -> None:
    assert not CASES[name][0](tf.constant).cond().dtype.is_complex


def test_logarithms_of_complex_operators_have_tensorflows_types(session: Any) -> None:
    dense = np.array([[2, 0], [1j, 3 + 1j]])
    triangle, full = L.LinearOperatorLowerTriangular(dense), L.LinearOperatorFullMatrix(dense)
    scaled = L.LinearOperatorScaledIdentity(2, np.complex128(2j))
    for operator in (triangle, scaled, triangle.adjoint(), triangle.inverse()):
        assert operator.log_abs_determinant().dtype == tf.float64
    mixed = [triangle, full, scaled]
    for operator in (
        full,
        full.inverse(),
        L.LinearOperatorDiag(dense[:, 1] + 1),
        L.LinearOperatorComposition(mixed),
        L.LinearOperatorKronecker(mixed),
        L.LinearOperatorBlockDiag(mixed),
        L.LinearOperatorLowRankUpdate(scaled, dense),
    ):
        found = operator.log_abs_determinant()
        assert found.dtype == tf.complex128
        value, whole = session.run([found, operator.to_dense()])
        np.testing.assert_allclose(value, np.log(np.abs(np.linalg.det(whole))), rtol=1e-9)


def test_hints_that_contradict_one_another_are_refused() -> None:
    with pytest.raises(ValueError, match="always non-singular"):
        L.LinearOperatorFullMatrix(P, is_positive_definite=True, is_non_singular=False)
    with pytest.raises(ValueError, match="hint is_square"):
        _ = L.LinearOperatorFullMatrix(U, is_square=True).is_square
    with pytest.raises(ValueError, match="non square"):
        L.LinearOperatorFullMatrix(U).inverse()
    with pytest.raises(NotImplementedError, match="singular"):
        L.LinearOperatorZeros(3).solve(np.ones((3, 1), np.float32))
    with pytest.raises(ValueError, match=r"incompatible|not compatible"):
        L.LinearOperatorFullMatrix(U).matmul(np.ones((3, 1)))


def test_checks_fail_while_the_graph_runs(session: Any) -> None:
    for operator, check in [
        (L.LinearOperatorDiag([1.0, 0]), "assert_non_singular"),
        (L.LinearOperatorFullMatrix([[1.0, 2], [2, 4]]), "assert_non_singular"),
        (L.LinearOperatorFullMatrix([[1.0, 2], [3, 4]]), "assert_self_adjoint"),
        (L.LinearOperatorScaledIdentity(2, -1.0), "assert_positive_definite"),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(getattr(operator, check)())


def test_a_part_of_a_batch_and_a_loop_over_an_operator(session: Any) -> None:
    part = L.LinearOperatorFullMatrix(tf.constant(A))[1]
    np.testing.assert_allclose(session.run(part.to_dense()), A[1])
    batch = L.LinearOperatorBlockDiag([L.LinearOperatorFullMatrix(tf.constant(A)), L.LinearOperatorFullMatrix(C)])
    np.testing.assert_allclose(session.run(batch[1:].to_dense())[0, :3, :3], A[1])
    scaled = L.LinearOperatorScaledIdentity(2, tf.constant([[1.0, 2], [3, 4]]))[:, 1]
    np.testing.assert_allclose(session.run(scaled.trace()), [4, 8])

    start = L.LinearOperatorDiag(tf.constant([1.0, 2]))
    _, found = tf.while_loop(
        lambda i, operator: i < 3, lambda i, operator: (i + 1, operator.matmul(start)), (tf.constant(0), start)
    )
    np.testing.assert_allclose(session.run(found.to_dense()), np.diag([1.0, 16]))
