"""Gradients of the sparse family agree with numeric ones."""

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.convert import SparseTensor, constant
from dtfctl.runtime.framework.op_builder import apply_op_nested
from dtfctl.runtime.ops.sparse_ops import arithmetic, arranging, conversion
from tests.unit.ops.gradient_check import check_gradient, complex_, real

PLACES = np.array([[0, 1], [1, 0], [1, 3], [2, 2]])
OTHERS = np.array([[0, 1], [0, 2], [2, 2]])
SHAPE = np.array([3, 4])


def _sparse(values: Any, places: Any = PLACES) -> SparseTensor:
    return SparseTensor(places, values, SHAPE)


@pytest.mark.parametrize("make", [real, complex_])
def test_products_and_sums(make: Any) -> None:
    for adjoint_a in (False, True):
        for adjoint_b in (False, True):
            inner = 3 if adjoint_a else 4
            b = make(2, inner) if adjoint_b else make(inner, 2)
            check_gradient(
                lambda v, b, p=adjoint_a, q=adjoint_b: arithmetic.sparse_tensor_dense_matmul(_sparse(v), b, p, q),
                make(4),
                b,
            )
    check_gradient(lambda v, w: arithmetic.sparse_add(_sparse(v), _sparse(w, OTHERS)).values, make(4), make(3))
    check_gradient(lambda v, w: arithmetic.sparse_add(_sparse(v), w), make(4), make(3, 4))
    check_gradient(lambda v, d: (_sparse(v) * d).values, make(4), make(3, 4))
    check_gradient(lambda v, d: (_sparse(v) * d).values, make(4), make(4, seed=1))
    check_gradient(lambda v, d: (_sparse(v) / d).values, make(4), make(3, 1) + 2)
    check_gradient(lambda v, d: (_sparse(v) * d).values, make(4), make())


def test_to_dense() -> None:
    check_gradient(lambda v: conversion.sparse_tensor_to_dense(_sparse(v)), real(4))
    check_gradient(lambda v, d: conversion.sparse_to_dense(PLACES, SHAPE, v, d), real(4), real())
    check_gradient(lambda v, d: conversion.sparse_to_dense(PLACES, SHAPE, v, d), real(), real(seed=1))
    check_gradient(lambda v, d: conversion.sparse_to_dense([0, 2], [4], v, d), real(2), real())


def test_rearrangements() -> None:
    check_gradient(lambda v: arranging.sparse_reorder(_sparse(v, PLACES[::-1].copy())).values, real(4))
    check_gradient(lambda v: arranging.sparse_slice(_sparse(v), [0, 1], [2, 3]).values, real(4))
    check_gradient(lambda v: arithmetic.sparse_softmax(_sparse(v)).values, real(4))
    check_gradient(lambda v: arranging.sparse_transpose(_sparse(v)).values, real(4))
    check_gradient(lambda v: arranging.sparse_reshape(_sparse(v), [4, 3]).values, real(4))
    check_gradient(lambda v: arranging.sparse_retain(_sparse(v), [True, False, True, True]).values, real(4))
    check_gradient(
        lambda v, d: arranging.sparse_fill_empty_rows(SparseTensor(PLACES, v, [5, 4]), d)[0].values, real(4), real()
    )


@pytest.mark.parametrize("axis", [None, [0], [1], [-1]], ids=str)
def test_reductions(axis: Any) -> None:
    for keepdims in (False, True):
        check_gradient(lambda v, k=keepdims: arithmetic.sparse_reduce_sum(_sparse(v), axis, k), real(4))


def test_ragged_gather() -> None:
    check_gradient(
        lambda v: apply_op_nested(
            "RaggedGather",
            params_nested_splits=[constant([0, 2, 5])],
            params_dense_values=v,
            indices=constant([1, 0, 1]),
            OUTPUT_RAGGED_RANK=1,
        )[-1],
        real(5),
    )
