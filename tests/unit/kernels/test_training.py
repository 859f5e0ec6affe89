"""Optimizer updates against their formulas, dense and sparse, by reference and by handle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import FailedPreconditionError, InternalError, InvalidArgumentError
from dtfctl.runtime.framework.op_signature import op_names
from dtfctl.runtime.kernels.registry import kernels_of
from tests.unit.kernels.test_state import Steps, ref, resource


@pytest.fixture
def steps() -> Steps:
    return Steps()


def f32(*values: Any) -> Any:
    return np.array(values, np.float32)


def test_every_update_op_has_a_kernel() -> None:
    updates = [name for name in op_names() if "Apply" in name and name.startswith(("Apply", "Sparse", "Resource"))]
    assert len(updates) >= 55
    assert [name for name in updates if not kernels_of(name)] == []


def test_gradient_descent(steps: Steps) -> None:
    var = ref(steps, f32(1, 2))
    steps.run(steps.node("ApplyGradientDescent", var, np.float32(0.5), f32(2, 4), T=dtypes.float32))
    np.testing.assert_array_equal(steps.run(var), [0, 0])


@pytest.mark.parametrize("nesterov", [False, True])
def test_adam_of_two_steps(steps: Steps, nesterov: bool) -> None:
    var, m, v = (ref(steps, f32(*x), n) for x, n in (((1, 2), "var"), ((0, 0), "m"), ((0, 0), "v")))
    want, wm, wv = np.array([1.0, 2.0]), np.zeros(2), np.zeros(2)
    for step, grad in enumerate((f32(0.1, -0.2), f32(0.3, 0.4)), 1):
        powers = np.float32(0.9**step), np.float32(0.99**step)
        hyper = (*powers, np.float32(0.01), np.float32(0.9), np.float32(0.99), np.float32(1e-8))
        steps.run(steps.node("ApplyAdam", var, m, v, *hyper, grad, T=dtypes.float32, use_nesterov=nesterov))
        alpha = 0.01 * np.sqrt(1 - 0.99**step) / (1 - 0.9**step)
        wm += (grad - wm) * 0.1
        wv += (grad**2 - wv) * 0.01
        ahead = grad * 0.1 + 0.9 * wm if nesterov else wm
        want -= alpha * ahead / (np.sqrt(wv) + 1e-8)
    np.testing.assert_allclose(steps.run(var), want, 1e-5)
    np.testing.assert_allclose(steps.run(m), wm, 1e-5)
    np.testing.assert_allclose(steps.run(v), wv, 1e-5)


def test_sparse_adagrad_touches_only_the_rows_named(steps: Steps) -> None:
    var = resource(steps, np.ones((4, 2), np.float32), "var")
    accum = resource(steps, np.full((4, 2), 0.1, np.float32), "accum")
    steps.run(
        steps.node(
            "ResourceSparseApplyAdagrad",
            var,
            accum,
            np.float32(0.5),
            np.full((2, 2), 2, np.float32),
            np.array([3, 3]),
            T=dtypes.float32,
        )
    )
    value = steps.run(steps.node("ReadVariableOp", var, dtype=dtypes.float32))
    np.testing.assert_array_equal(value[:3], np.ones((3, 2)))
    # The same row twice: the second update sees the first one's accumulator.
    want = 1 - 1 / np.sqrt(4.1) - 1 / np.sqrt(8.1)
    np.testing.assert_allclose(value[3], [want, want], 1e-6)


def test_momentum_shared_by_two_arguments_is_one_array(steps: Steps) -> None:
    var = ref(steps, f32(1, 1))
    steps.run(steps.node("ApplyMomentum", var, var, np.float32(1), f32(1, 1), np.float32(0), T=dtypes.float32))
    np.testing.assert_array_equal(steps.run(var), [0, 0])


def test_bfloat16_is_rounded_after_each_operation(steps: Steps) -> None:
    dtype = dtypes.bfloat16.np
    var = ref(steps, np.array([1, 2], dtype))
    delta = np.array([0.01, 0.01], dtype)
    steps.run(steps.node("ApplyGradientDescent", var, np.asarray(0.5, dtype), delta, T=dtypes.bfloat16))
    value = steps.run(var)
    assert value.dtype == dtype
    np.testing.assert_array_equal(value.astype(np.float32), [0.99609375, 1.9921875])


def test_mistakes_have_tensorflows_texts(steps: Steps) -> None:
    var = ref(steps, f32(1, 2))
    with pytest.raises(InvalidArgumentError, match=r"var and delta do not have the same shape\[2\] \[3\]"):
        steps.run(steps.node("ApplyGradientDescent", var, np.float32(1), f32(1, 2, 3), T=dtypes.float32))
    with pytest.raises(InvalidArgumentError, match=r"alpha is not a scalar: \[1\]"):
        steps.run(steps.node("ApplyGradientDescent", var, f32(1), f32(1, 2), T=dtypes.float32))
    handle = steps.node("VarHandleOp", shape=[2], dtype=dtypes.float32, shared_name="missing")
    with pytest.raises(InternalError, match="Invalid variable reference"):
        steps.run(steps.node("ResourceApplyGradientDescent", handle, np.float32(1), f32(1, 2)))
    empty = steps.node("VariableV2", name="empty", shape=[2], dtype=dtypes.float32)
    with pytest.raises(FailedPreconditionError, match="uninitialized value empty"):
        steps.run(steps.node("ApplyGradientDescent", empty, np.float32(1), f32(1, 2), T=dtypes.float32))


@pytest.mark.parametrize(
    ("indices", "grad", "text"),
    [
        ([5], [[1.0, 1.0]], "Index 5 at offset 0 in indices is out of range"),
        ([0, 1], [[1.0, 1.0]], "grad must be the same size as indices in the first dimension"),
        ([[0]], [[1.0, 1.0]], "indices must be one-dimensional"),
        ([0], [[1.0]], "var and grad must match in dimension 1"),
    ],
)
def test_sparse_updates_check_their_rows(steps: Steps, indices: Any, grad: Any, text: str) -> None:
    var, accum = ref(steps, np.ones((3, 2), np.float32), "var"), ref(steps, np.ones((3, 2), np.float32), "accum")
    with pytest.raises(InvalidArgumentError, match=text):
        steps.run(
            steps.node(
                "SparseApplyAdagrad",
                var,
                accum,
                np.float32(1),
                np.array(grad, np.float32),
                np.array(indices),
                T=dtypes.float32,
            )
        )
    np.testing.assert_array_equal(steps.run(var), np.ones((3, 2)))
