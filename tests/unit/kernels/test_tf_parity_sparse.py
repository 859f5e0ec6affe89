"""Sparse kernels at the edges where TensorFlow's own tests look."""

from __future__ import annotations

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from tests.support.interpreter import run_op


def test_set_size_of_bad_indices_and_shapes() -> None:
    with pytest.raises(InternalError, match=r"indices\[0, 1\] expected < 390, got 7450"):
        run_op("SetSize", np.array([[804, 7450], [8, 7]]), [1, 1], np.array([812, 390]), validate_indices=False)
    with pytest.raises(InvalidArgumentError, match="Shape must be a 1D tensor"):
        run_op("SetSize", np.array(1), [1, 1], np.array(1), validate_indices=True)


def test_splits_and_slices_check_their_arguments() -> None:
    indices, values, shape = np.array([[0, 0], [1, 10]]), np.ones(2, np.float32), np.array([3, 5])
    with pytest.raises(InvalidArgumentError, match="out of bounds"):
        run_op("SparseSplit", np.array(1), indices, values, shape, num_split=2)
    with pytest.raises(InvalidArgumentError, match="axis should be a scalar"):
        run_op("SparseSplit", np.array([1, 2]), indices, values, shape, num_split=2)
    with pytest.raises(InvalidArgumentError, match=r"axis should be in range \[-2, 2\)"):
        run_op("SparseSplit", np.array(2), indices, values, shape, num_split=2)
    big = 2**62
    got = run_op("SparseSlice", np.array([[0, 0]]), [7], np.array([1, 1]), np.array([big, -1]), np.array([big, big]))
    assert got[0].shape == (0, 2) and got[1].size == 0
    with pytest.raises(InvalidArgumentError, match=r"Number of elements .* do not match"):
        run_op("SparseReorder", np.array([[0, 0, 0]]), [0, 1, 2], np.array([3, 3]))


def test_slices_of_ordinary_size() -> None:
    indices = np.array([[0, 0], [1, 2], [2, 3]])
    got = run_op("SparseSlice", indices, [1, 2, 3], np.array([3, 4]), np.array([1, 1]), np.array([5, 2]))
    assert [part.tolist() for part in got] == [[[0, 1]], [2], [2, 2]]


def test_serialized_tensors_that_do_not_go_together() -> None:
    def serialized(values: np.ndarray, rank: int) -> np.ndarray:
        zeros = np.zeros((1, rank), np.int64)
        return run_op("SerializeSparse", zeros, values, np.ones(rank, np.int64), out_type=dtypes.string)

    two, three = serialized(np.array([1], np.int32), 2), serialized(np.array([1], np.int32), 3)
    with pytest.raises(InvalidArgumentError, match=r"Inconsistent shape .* SparseTensor\[1\] was: 2 .*\[1\] is: 3"):
        run_op("DeserializeSparse", np.stack([two, three]), dtype=dtypes.int32)
    with pytest.raises(InvalidArgumentError, match=r"type int64 but SparseTensor\[0\].values.dtype\(\) == int32"):
        run_op("DeserializeSparse", np.stack([two, two]), dtype=dtypes.int64)


def test_an_implied_size_beside_a_zero_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="cannot infer the missing input size"):
        run_op("SparseReshape", np.zeros((0, 1), np.int64), np.array([0]), np.array([-1, 0]))


def test_crosses_need_matrices_and_a_salt_of_two() -> None:
    with pytest.raises(InvalidArgumentError, match="Expected D2 of index to be 2"):
        run_op("SparseCrossV2", [np.array([[0]])], [np.array([1])], [np.array([1])], [], b"_", N=1)
