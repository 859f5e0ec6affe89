"""MatrixLogarithm: stock TensorFlow 2.21's answers, the definition, and that it ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

from tests.support.interpreter import run_op

NAN, INF, PI = float("nan"), float("inf"), np.pi
TENSORFLOW = [
    ([[-1]], [[PI * 1j]]),
    ([[1e300]], [[690.7755278982137]]),
    ([[1, 1], [0, 1]], [[0, 1], [0, 0]]),
    ([[-1, 0], [0, -1]], [[PI * 1j, 0], [0, PI * 1j]]),
    ([[0, 1], [-1, 0]], [[0, PI / 2], [-PI / 2, 0]]),
    ([[1e-300, 0], [0, 1]], [[-690.7755278982137, 0], [0, 0]]),
    ([[-2, 1], [0, 3]], [[0.6931471805599453 + PI * 1j, 0.0810930216216329 - 0.6283185307179584j], [0, np.log(3)]]),
    (
        [[1e300, 1e300], [1e300, -1e300]],
        [
            [691.1221014884935 + 0.460075592255305j, -1.1107207345395913j],
            [-1.1107207345395913j, 691.1221014884935 + 2.681517061334488j],
        ],
    ),
    (
        [[4, 1, 0], [0, 3, 1], [1, 0, 5]],
        [
            [1.391662851126191, 0.28641610038947085, -0.0320573446026311],
            [-0.03205734460263121, 1.1052467507367205, 0.25435875578684064],
            [0.2223014111842092, -0.03205734460263049, 1.6139642623104011],
        ],
    ),
]
NONE = [[[0]], [[NAN]], [[-INF]], [[0, 0], [0, 0]], [[0, 1], [0, 0]], [[1, NAN], [1, 2]], [[INF, 0], [0, 1]]]


@pytest.mark.parametrize(("x", "want"), TENSORFLOW)
def test_it_is_tensorflows(x: list[list[float]], want: list[list[complex]]) -> None:
    got = run_op("MatrixLogarithm", np.array(x, np.complex128))
    np.testing.assert_allclose(got, np.array(want), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("x", NONE)
def test_where_there_is_none_it_is_nan_as_tensorflows(x: list[list[float]]) -> None:
    both = np.array([x, np.eye(len(x))], np.complex128)
    got = run_op("MatrixLogarithm", both)
    assert np.isnan(got[0].real).all() and np.isnan(got[0].imag).all()
    assert not got[1].any()


@pytest.mark.parametrize("n", [1, 2, 5, 16, 17, 40])
def test_its_exponential_is_what_was_given(n: int) -> None:
    draw = np.random.default_rng(n)
    x = linalg.expm((draw.normal(size=(n, n)) + 1j * draw.normal(size=(n, n))) / np.sqrt(n))
    got = run_op("MatrixLogarithm", x)
    assert run_op("MatrixLogarithm", x.astype(np.complex64)).dtype == np.complex64
    np.testing.assert_allclose(linalg.expm(got), x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(got, linalg.logm(x), rtol=1e-9, atol=1e-9)


def test_it_ends_whatever_it_is_given() -> None:
    """The library's own takes roots without end of some of these."""
    draw = np.random.default_rng(7)
    hostile = [0.0, 1.0, -1.0, INF, -INF, NAN, 5e-324, 1.7e308, -1.7e308, 1e-200, 2.0**62]
    for _ in range(200):
        n = int(draw.integers(0, 5))
        x = np.zeros((n, n), np.complex128)
        x.real = draw.choice(hostile, (n, n))
        x.imag = np.where(draw.random((n, n)) < 0.5, 0.0, draw.choice(hostile, (n, n)))
        with np.errstate(all="ignore"):
            assert run_op("MatrixLogarithm", x).shape == (n, n)
