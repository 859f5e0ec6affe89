"""Gradients of the math family agree with numeric ones."""

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.gradients import gradients
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.ops import array_ops as a, clip_ops, math_ops as m
from tests.unit.ops.gradient_check import check_gradient, complex_, positive, real, small

ANYWHERE = "Abs Neg Square Exp Expm1 Sinh Cosh Tanh Sigmoid Asinh Sin Cos Atan Erf Erfc Dawsn FresnelCos FresnelSin"
ANYWHERE += " BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1"
POSITIVE = "Reciprocal Inv Sqrt Rsqrt Log Log1p Digamma Lgamma Expint Spence BesselK0 BesselK0e BesselK1 BesselK1e"
POSITIVE += " BesselY0 BesselY1"
SMALL = "Asin Acos Atanh Tan Erfinv"
COMPLEX = "Exp Expm1 Log Log1p Sin Cos Sinh Cosh Tanh Sigmoid Sqrt Rsqrt Square Reciprocal Tan Asin Acos Atan Asinh"
COMPLEX += " Acosh Atanh"
BINARY = "AddV2 Sub Mul RealDiv Div Maximum Minimum SquaredDifference Pow DivNoNan MulNoNan Xdivy Xlogy Xlog1py"
SHAPES = [((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 1, 3)), ((), (2,))]


@pytest.mark.parametrize(
    ("op", "x"),
    [(op, real(2, 3)) for op in ANYWHERE.split()]
    + [(op, positive(2, 3)) for op in POSITIVE.split()]
    + [(op, small(2, 3)) for op in SMALL.split()]
    + [(op, complex_(3)) for op in COMPLEX.split()]
    + [("Acosh", positive(3) + 1.2), ("Ndtri", np.array([0.2, 0.5, 0.9]))],
    ids=str,
)
def test_unary(op: str, x: np.ndarray) -> None:
    check_gradient(lambda t: apply_op(op, x=t), x)


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("op", BINARY.split())
def test_binary_sums_over_broadcast_dimensions(op: str, shapes: Any, static: bool) -> None:
    x, y = positive(*shapes[0]), positive(*shapes[1], seed=5)
    check_gradient(lambda x, y: apply_op(op, x=x, y=y), x, y, static=static)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("op", ["AddV2", "Sub", "Mul", "RealDiv"])
def test_complex_arithmetic_conjugates(op: str, shapes: Any) -> None:
    check_gradient(lambda x, y: apply_op(op, x=x, y=y), complex_(*shapes[0]), complex_(*shapes[1], seed=5))


def test_functions_of_several_arguments() -> None:
    check_gradient(m.atan2, real(2, 3), real(3, seed=1))
    check_gradient(m.igamma, positive(3) + 0.5, positive(3, seed=1))
    check_gradient(m.igammac, positive(3) + 0.5, positive(3, seed=1))
    check_gradient(m.cross, real(2, 3), real(2, 3, seed=1))
    check_gradient(m.floormod, positive(3) * 5, positive(3, seed=3))
    check_gradient(lambda x: clip_ops.clip_by_value(x, -0.5, 0.5), real(5))
    check_gradient(
        lambda x, low, high: apply_op("ClipByValue", t=x, clip_value_min=low, clip_value_max=high),
        real(2, 3) * 2,
        np.array(-0.5),
        np.array(0.5),
    )
    check_gradient(lambda x, y: a.where([[True, False], [False, True]], x, y), real(2, 2), real(2, 2, seed=1))
    check_gradient(lambda x, y: a.where([True, False], x, y), real(2, 2), real(2, 2, seed=1))
    check_gradient(lambda x, y: a.where_v2([True, False, True], x, y), real(2, 3), real(3, seed=1))
    check_gradient(lambda x, y: a.where_v2([True, False, True], x, y), real(2, 3), real(3, seed=1), static=False)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("make", [real, complex_])
def test_matrix_products(transpose_a: bool, transpose_b: bool, make: Any) -> None:
    x, y = make(*((3, 2) if transpose_a else (2, 3))), make(*((4, 3) if transpose_b else (3, 4)), seed=1)
    check_gradient(lambda x, y: m.matmul(x, y, transpose_a, transpose_b), x, y)
    x = make(2, *x.shape)
    for static in (True, False):
        check_gradient(
            lambda x, y: apply_op("BatchMatMulV2", x=x, y=y, adj_x=transpose_a, adj_y=transpose_b), x, y, static=static
        )


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("axis", [None, 0, [1], [0, 2], -1], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        m.reduce_sum,
        m.reduce_mean,
        m.reduce_max,
        m.reduce_min,
        m.reduce_prod,
        m.reduce_logsumexp,
        m.reduce_euclidean_norm,
    ],
    ids=lambda f: f.__name__,
)
def test_reductions(function: Any, axis: Any, static: bool) -> None:
    for keepdims in (False, True):
        check_gradient(lambda x, k=keepdims: function(x, axis=axis, keepdims=k), real(2, 3, 2), static=static)


def test_product_with_zeros() -> None:
    check_gradient(lambda x: m.reduce_prod(x, axis=1), np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 1.0]]))


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans(exclusive: bool, reverse: bool) -> None:
    check_gradient(lambda x: m.cumsum(x, 1, exclusive, reverse), real(2, 3))
    check_gradient(lambda x: m.cumprod(x, 1, exclusive, reverse), real(2, 3))


def test_segments() -> None:
    for function in (m.segment_sum, m.segment_mean, m.segment_max, m.segment_min, m.segment_prod):
        check_gradient(lambda x, f=function: f(x, [0, 0, 1, 3]), real(4, 2))
    for function in (m.unsorted_segment_sum, m.unsorted_segment_mean, m.unsorted_segment_sqrt_n):
        check_gradient(lambda x, f=function: f(x, [2, 0, -1, 2], 3), real(4, 2))
    for function in (m.unsorted_segment_max, m.unsorted_segment_min, m.unsorted_segment_prod):
        check_gradient(lambda x, f=function: f(x, [2, 0, 1, 2], 3), real(4, 2))
    for function in (m.sparse_segment_sum, m.sparse_segment_mean, m.sparse_segment_sqrt_n):
        check_gradient(lambda x, f=function: f(x, [0, 2, 2, 1], [0, 0, 1, 2]), real(4, 2))
        check_gradient(lambda x, f=function: f(x, [0, 2, 2, 1], [0, 0, 1, 2], num_segments=5), real(4, 2))


def test_fourier_transforms() -> None:
    for function, shape in ((m.fft, (2, 4)), (m.ifft, (2, 4)), (m.fft2d, (3, 4)), (m.ifft3d, (2, 3, 2))):
        check_gradient(function, complex_(*shape))
    for n in (4, 5):
        check_gradient(m.rfft, real(2, n))
        check_gradient(lambda x, n=n: m.irfft(x, [n]), complex_(2, n // 2 + 1))


def test_operators() -> None:
    check_gradient(lambda x, y: (x + 1.0) * 2.0 / y - y**2.0 + (3.0 - x) % 2.0 + abs(x) @ y, real(2, 2), positive(2, 2))


@pytest.mark.parametrize("function", [m.tanh, m.sigmoid, m.sqrt, m.rsqrt, m.reciprocal, m.exp, m.square])
def test_second_derivatives(function: Any) -> None:
    def gradient(x: Any) -> Any:
        y = function(x)
        return gradients(m.reduce_sum(y * y), x)[0]

    check_gradient(gradient, positive(3))
