"""Values of the Python functions, with numpy as the reference."""

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, constant
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops as a, linalg_ops, math_ops as m
from dtfctl.runtime.ops.sparse_ops import arithmetic, conversion, sets
from tests.support.interpreter import Interpreter


def value_of(make: Any) -> Any:
    with Graph().as_default() as graph:
        tensor = make()
        assert isinstance(tensor, Tensor)
        got = Interpreter(graph.as_graph_def()).run([tensor.name])[0]
        assert tensor.shape.is_compatible_with(np.shape(got)), (tensor.shape, np.shape(got))
        assert np.asarray(got).dtype == tensor.dtype.base_dtype.np
        return got


MATRIX = np.array([[1.0, 2.0], [3.0, 5.0]])
CASES: dict[str, tuple[Any, Any]] = {
    "eye": (lambda: a.eye(2, 3), np.eye(2, 3)),
    "one_hot": (lambda: a.one_hot([1, 0], 3), [[0, 1, 0], [1, 0, 0]]),
    "one_hot_bool": (lambda: a.one_hot([1], 2, True, False), [[False, True]]),
    "sequence_mask": (lambda: a.sequence_mask([1, 3]), [[True, False, False], [True, True, True]]),
    "count_nonzero": (lambda: m.count_nonzero([0, 1, 2]), 2),
    "bincount": (lambda: m.bincount([1, 1, 3]), [0, 2, 0, 1]),
    "searchsorted": (lambda: a.searchsorted([1, 3, 5], [2, 3], side="right"), [1, 2]),
    "saturate_cast": (lambda: m.saturate_cast([300.0, -5.0, 7.0], dtypes.uint8), [255, 0, 7]),
    "trace": (lambda: m.trace(MATRIX), 6),
    "zeros_dynamic": (lambda: a.zeros([2, constant(3)]), np.zeros((2, 3))),
    "slice_by_tensor": (lambda: constant([1, 2, 3])[constant(1) :], [2, 3]),
    "ellipsis": (lambda: constant(np.arange(8).reshape(2, 2, 2))[..., 1], np.arange(8).reshape(2, 2, 2)[..., 1]),
    "reverse_slice": (lambda: constant([1, 2, 3])[::-1], [3, 2, 1]),
    "div_floors": (lambda: m.div(-7, 2), -4),
    "truediv": (lambda: m.truediv(7, 2), 3.5),
    "rfloordiv": (lambda: 7 // constant(2), 3),
    "rtruediv": (lambda: 1.0 / constant([2.0]), [0.5]),
    "where": (lambda: a.where([True, False, True]), [[0], [2]]),
    "unique": (lambda: a.unique([3, 1, 3])[0], [3, 1]),
    "setdiff1d": (lambda: a.setdiff1d([1, 2, 3], [2])[1], [0, 2]),
    "invert": (lambda: ~constant([True, False]), [False, True]),
    "xor": (lambda: constant([True, False]) ^ constant([True, True]), [False, True]),
    "bit_and": (lambda: constant([6]) & constant([3]), [2]),
    "power": (lambda: constant(2) ** 3, 8),
    "strings_add": (lambda: constant("a") + "b", b"ab"),
    "range": (lambda: m.range(1, 6, 2), [1, 3, 5]),
    "linspace": (lambda: m.linspace(0.0, 1.0, 3), [0, 0.5, 1]),
    "boolean_mask": (lambda: a.boolean_mask([[1, 2], [3, 4]], [True, False]), [[1, 2]]),
    "matrix_transpose": (lambda: a.matrix_transpose(MATRIX), MATRIX.T),
    "repeat": (lambda: a.repeat([1, 2], [2, 1]), [1, 1, 2]),
    "tensordot": (lambda: m.tensordot(MATRIX, MATRIX, [[1], [0]]), MATRIX @ MATRIX),
    "polyval": (lambda: m.polyval([1.0, 2.0, 3.0], 2.0), 11),
    "reciprocal_no_nan": (lambda: m.reciprocal_no_nan([0.0, 2.0]), [0, 0.5]),
    "histogram_bins": (lambda: m.histogram_fixed_width_bins([-1.0, 0.0, 1.5, 15.0], [0.0, 5.0], 5), [0, 0, 1, 4]),
    "reduce_std": (lambda: m.reduce_std([1.0, 3.0]), 1),
    "lbeta": (lambda: m.lbeta([1.0, 1.0]), 0),
    "l_norm": (lambda: linalg_ops.norm(MATRIX), np.linalg.norm(MATRIX)),
    "pinv": (lambda: linalg_ops.pinv(MATRIX[:, :1]), np.linalg.pinv(MATRIX[:, :1])),
    "matrix_rank": (lambda: linalg_ops.matrix_rank(np.ones((2, 2))), 1),
    "einsum": (lambda: linalg_ops.einsum("ij,jk,kl->il", MATRIX, MATRIX, MATRIX), MATRIX @ MATRIX @ MATRIX),
    "from_dense": (lambda: conversion.from_dense([[1, 0], [0, 2]]).indices, [[0, 0], [1, 1]]),
    "set_union": (lambda: sets.set_union([[1, 2]], [[2, 3]]).values, [1, 2, 3]),
    "set_size": (lambda: sets.set_size(SparseTensor([[0, 0], [1, 0], [1, 1]], [1, 2, 3], [2, 2])), [1, 2]),
    "space_to_batch_paddings": (lambda: a.required_space_to_batch_paddings([5], [2])[0], [[0, 1]]),
}


@pytest.mark.parametrize("name", CASES)
def test_value(name: str) -> None:
    make, want = CASES[name]
    got = value_of(make)
    if isinstance(want, bytes):
        assert np.asarray(got).item() == want
    else:
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), 1e-6, 1e-9)


def test_static_errors_name_the_op() -> None:
    with Graph().as_default():
        with pytest.raises(ValueError, match="Dimensions must be equal, but are 3 and 4"):
            m.matmul(a.zeros([2, 3]), a.zeros([4, 5]))
        with pytest.raises(ValueError, match="Cannot reshape a tensor with 6 elements"):
            a.reshape(a.zeros([2, 3]), [4])
        with pytest.raises(ValueError, match="Dimensions must be equal"):
            _ = a.zeros([2]) + a.zeros([3])
        with pytest.raises(TypeError, match="valid"):
            _ = a.zeros([2])[1.5]


def test_sparse_operators_keep_the_indices() -> None:
    assert arithmetic is not None  # it is what gives SparseTensor its operators

    def product() -> Tensor:
        sparse = SparseTensor([[0, 1], [1, 0]], [2.0, 3.0], [2, 2])
        return (sparse * constant([[1.0, 5.0], [7.0, 1.0]])).values

    np.testing.assert_array_equal(value_of(product), [10.0, 21.0])
