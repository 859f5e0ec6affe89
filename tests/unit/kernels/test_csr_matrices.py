"""Sparse matrices in compressed rows, checked against dense arithmetic."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor
from tests.support.interpreter import run_op

VARIANT = {"T": dtypes.variant}


def sparse(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else 0)
    return (values * (rng.random(shape) < 0.4)).astype(dtype)


def csr(dense: np.ndarray) -> Any:
    return run_op("DenseToCSRSparseMatrix", dense, np.argwhere(dense))


def dense(matrix: Any, dtype: Any) -> np.ndarray:
    return run_op("CSRSparseMatrixToDense", matrix, type=tf.as_dtype(dtype))


@pytest.mark.parametrize("shape", [(4, 6), (3, 4, 6), (2, 0, 3), (3, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_to_and_from_dense_and_coordinates(shape: tuple[int, ...], dtype: Any) -> None:
    a = sparse(shape, dtype, 1)
    matrix = csr(a)
    np.testing.assert_array_equal(dense(matrix, dtype), a)
    indices, values, dims = run_op("CSRSparseMatrixToSparseTensor", matrix, type=tf.as_dtype(dtype))
    np.testing.assert_array_equal(indices, np.argwhere(a))
    assert tuple(dims) == shape
    again = run_op("SparseTensorToCSRSparseMatrix", indices, values, dims)
    travelled = decode_tensor(encode_tensor(again, dtypes.variant))
    np.testing.assert_array_equal(dense(travelled, dtype), a)
    counts = run_op("SparseMatrixNNZ", matrix)
    np.testing.assert_array_equal(counts, np.count_nonzero(a, axis=(-2, -1)))


def test_components_are_those_of_one_matrix() -> None:
    a = np.float32([[[0, 1, 0], [2, 0, 3]], [[0, 0, 0], [0, 4, 0]]])
    pointers, columns, values = run_op("CSRSparseMatrixComponents", csr(a), np.array(1, np.int32), type=tf.float32)
    assert (pointers.tolist(), columns.tolist(), values.tolist()) == ([0, 0, 1], [1], [4.0])
    with pytest.raises(InvalidArgumentError, match=r"index \(2\) not in \[0, 2\)"):
        run_op("CSRSparseMatrixComponents", csr(a), np.array(2, np.int32), type=tf.float32)


def turned(value: np.ndarray, transpose: bool, adjoint: bool) -> np.ndarray:
    value = value.swapaxes(-1, -2) if transpose or adjoint else value
    return value.conj() if adjoint else value


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize(("a", "b"), list(itertools.product(("", "transpose", "adjoint"), repeat=2)))
def test_products(batch: tuple[int, ...], a: str, b: str) -> None:
    left = sparse((*batch, 5, 7), np.complex64, 2)
    right = sparse((*batch, 7, 4), np.complex64, 3)
    want = left @ right
    # What is stored is turned, so that turning it again gives the factor.
    x, y = turned(left, a == "transpose", a == "adjoint"), turned(right, b == "transpose", b == "adjoint")
    flags = {f"{how}_{side}": True for side, how in (("a", a), ("b", b)) if how}
    for turn, conjugate in itertools.product((False, True), repeat=2):
        got = run_op("SparseMatrixMatMul", csr(x), y, transpose_output=turn, conjugate_output=conjugate, **flags)
        expected = want.swapaxes(-1, -2) if turn else want
        np.testing.assert_allclose(got, expected.conj() if conjugate else expected, rtol=1e-5, atol=1e-6)
    product = run_op("SparseMatrixSparseMatMul", csr(x), csr(y), type=tf.complex64, **flags)
    np.testing.assert_allclose(dense(product, np.complex64), want, rtol=1e-5, atol=1e-6)
    back = run_op("SparseMatrixTranspose", csr(x), conjugate=True, type=tf.complex64)
    np.testing.assert_array_equal(dense(back, np.complex64), x.swapaxes(-1, -2).conj())


def test_sums_and_zeros_of_matrices() -> None:
    a, b = sparse((2, 3, 4), np.float64, 4), sparse((2, 3, 4), np.float64, 5)
    total = run_op("AddN", [csr(a), csr(b)], dtypes=VARIANT)
    np.testing.assert_allclose(dense(total, np.float64), a + b)
    np.testing.assert_array_equal(dense(run_op("ZerosLike", csr(a), dtypes=VARIANT), np.float64), np.zeros_like(a))


def test_conjugates_of_matrices() -> None:
    a = sparse((3, 4), np.complex64, 6)
    np.testing.assert_array_equal(dense(run_op("Conj", csr(a), dtypes=VARIANT), np.complex64), a.conj())
    with pytest.raises(InvalidArgumentError, match="conjugation of a TensorMap"):
        run_op("Conj", run_op("EmptyTensorMap"), dtypes=VARIANT)


def test_what_does_not_fit_is_named() -> None:
    matrix = csr(np.ones((2, 3), np.float32))
    with pytest.raises(InvalidArgumentError, match="Inner product dimensions of A and B do not agree"):
        run_op("SparseMatrixMatMul", matrix, np.ones((2, 3), np.float32))
    with pytest.raises(InvalidArgumentError, match=r"Ranks of a and b must match, saw: 2 vs\. 3\."):
        run_op("SparseMatrixMatMul", matrix, np.ones((1, 3, 3), np.float32))
    with pytest.raises(InvalidArgumentError, match="Asked for a CSRSparseMatrix of type"):
        dense(matrix, np.float64)
    with pytest.raises(InvalidArgumentError, match="no CSRSparseMatrix"):
        dense(run_op("EmptyTensorMap"), np.float32)


def test_a_malformed_matrix_from_the_wire_is_refused() -> None:
    proto = encode_tensor(csr(np.ones((2, 3), np.float32)), dtypes.variant)
    proto.variant_val[0].tensors[3].CopyFrom(encode_tensor(np.full(6, 99, np.int32)))
    with pytest.raises(InvalidArgumentError, match="Malformed CSRSparseMatrix"):
        decode_tensor(proto)
