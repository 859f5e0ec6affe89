"""Values and errors of mathematical ops where TensorFlow's are not what one would guess."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.errors import InternalError, InvalidArgumentError
from tests.support.interpreter import run_op

GRADIENTS = ["SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"]


@pytest.mark.parametrize("op", GRADIENTS)
def test_gradients_by_element_do_not_broadcast(op: str) -> None:
    with pytest.raises(InvalidArgumentError, match="must have same number of elements, got 4 and 1"):
        run_op(op, np.ones(4, np.float32), np.float32(1))


@pytest.mark.parametrize("op", GRADIENTS)
def test_gradients_by_element_have_the_shape_of_the_result(op: str) -> None:
    assert run_op(op, np.ones(1, np.float32), np.ones((1, 1), np.float32)).shape == (1,)


def test_ties_of_a_falling_fit_stay_apart() -> None:
    fit, segments = run_op("IsotonicRegression", np.array([[3, 2, 2, 1, 4]], np.int16))
    np.testing.assert_allclose(fit, [[3, 2.25, 2.25, 2.25, 2.25]])
    np.testing.assert_array_equal(segments, [[0, 1, 1, 1, 1]])
    np.testing.assert_array_equal(run_op("IsotonicRegression", np.array([[2, 2, 1]], np.int16))[1], [[0, 1, 2]])


def test_a_real_matrix_without_a_real_root() -> None:
    roots = run_op("MatrixSquareRoot", np.array([[[-1.0]], [[4.0]]]))
    np.testing.assert_array_equal(roots, [[[np.nan]], [[2.0]]])


def test_axes_of_a_reduction_are_a_vector_at_most() -> None:
    with pytest.raises(InvalidArgumentError, match="at most rank 1 but is rank 2"):
        run_op("Min", np.ones((2, 2)), np.zeros((1, 1), np.int32))


def test_the_axis_of_unique_is_a_vector() -> None:
    with pytest.raises(InvalidArgumentError, match="axis expects a 1D vector"):
        run_op("UniqueV2", np.ones((2, 2)), np.int64(1))


def test_where_of_a_scalar() -> None:
    with pytest.raises(InvalidArgumentError, match="Unhandled input dimensions: 0"):
        run_op("Where", np.bool_(True))


def test_coordinates_in_no_dimensions() -> None:
    assert run_op("UnravelIndex", np.zeros(2, np.int32), np.zeros(0, np.int32)).shape == (0, 2)


def test_a_candidate_that_is_none_of_all() -> None:
    with pytest.raises(InvalidArgumentError, match=r"out of range \[0, 2\), received 3"):
        run_op("AllCandidateSampler", np.array([[1, 3]]), num_true=2, num_sampled=2, unique=True)


def test_lists_of_two_lengths() -> None:
    with pytest.raises(InternalError, match=r"#inputs != #outputs : 2 vs\. 1"):
        run_op("_ArrayToList", [np.ones(1), np.ones(1)], out_types=[np.float64])


@pytest.mark.parametrize("op", ["SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_nothing_that_comes_in_at_a_pole_is_nothing_that_goes_out(op: str, dtype: Any) -> None:
    """What TensorFlow 2.21 gives: `where(x > 0, sqrt(x), x)` has a gradient at 0, and a norm that is masked has one."""
    pole = 0 if op == "SqrtGrad" else np.inf
    found = run_op(op, np.array([pole, pole, 2], dtype), np.array([0, 1, 0], dtype))
    np.testing.assert_array_equal(found[[0, 2]], [0, 0])
    assert not np.isfinite(found[1])


def test_no_part_of_an_incomplete_gamma_function_has_no_slope() -> None:
    assert run_op("IgammaGradA", np.float32([0, 2]), np.float32([0, 0])).tolist() == [0, 0]
