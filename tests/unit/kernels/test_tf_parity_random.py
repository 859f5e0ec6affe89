"""Random kernels; values from TensorFlow 2.21."""

from __future__ import annotations

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework.errors import InvalidArgumentError
from tests.support.interpreter import run_op

SEED = np.array([1, -2, 70000], np.int32)


@pytest.mark.parametrize(
    ("most", "rounds", "want"),
    [
        (9, 4, [9, 1, 5, 6, 4, 2, 3, 0, 7, 8]),
        (100, 4, [70, 52, 63, 54, 71, 23]),
        (2**40, 4, [74204859027, 70075559690, 83394740387, 79399675194]),
        (2**16, 6, [55030, 5099, 29543]),
        (2**62 + 5, 8, [3038959814762618624, 2883466326164973705, 3328941713078030594]),
    ],
)
def test_shuffled_indices(most: int, rounds: int, want: list[int]) -> None:
    index = np.arange(len(want), dtype=np.int64)
    assert run_op("RandomIndexShuffle", index, SEED, np.array(most, np.int64), rounds=rounds).tolist() == want
    alone = run_op("RandomIndexShuffle", index[1], SEED, np.array(most, np.int64), rounds=rounds)
    assert alone.shape == () and alone == want[1]


def test_indices_beyond_the_greatest_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="max_index must be >= index, but 3 < 4"):
        run_op("RandomIndexShuffle", np.array(4, np.int32), SEED, np.array(3, np.int32), rounds=4)


PAIR = np.array([3, 7], np.int32)


def test_binomials() -> None:
    counts, probs = np.array([5.0, 40, 1000, 7, 30]), np.array([0.3, 0.6, 0.5, 0, 1])
    got = run_op("StatelessRandomBinomial", np.array([2, 5]), PAIR, counts, probs, dtype=tf.int64)
    assert got.tolist() == [[1, 20, 496, 0, 30], [2, 24, 511, 0, 30]]
    got = run_op(
        "StatelessRandomBinomial", np.array([6, 1]), PAIR, np.float32([100]), np.float32(0.25), dtype=tf.float32
    )
    assert got.tolist() == [[27], [25], [31], [24], [24], [28]]
    with pytest.raises(InvalidArgumentError, match="must end with broadcasted shape"):
        run_op("StatelessRandomBinomial", np.array([6]), PAIR, counts, probs, dtype=tf.int64)
    with pytest.raises(InvalidArgumentError, match="counts and probs must have compatible batch dimensions"):
        run_op("StatelessRandomBinomial", np.array([6]), PAIR, counts, probs[:2], dtype=tf.int64)


def test_binomials_of_a_generators_state() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        state = tf.get_variable("state", initializer=np.array([1, 2, 3], np.int64), use_resource=True)
        drawn = tf.raw_ops.StatefulRandomBinomial(
            resource=state.handle,
            algorithm=np.int64(1),
            shape=[2, 2],
            counts=np.array([20.0, 50]),
            probs=np.array([0.4, 0.5]),
            dtype=tf.int32,
        )
        session.run(state.initializer)
        assert session.run(drawn).tolist() == [[9, 26], [8, 28]]
        assert session.run(state).tolist() == [1 + 2 * 2 * 100 * 5 // 4, 2, 3]


@pytest.mark.parametrize(
    ("dtype", "means", "deviations", "low", "high", "want"),
    [
        (
            np.float32,
            [0, 1, 2],
            [1, 2, 0.5],
            [-1, 1.5, 4],
            [1, 9, np.inf],
            [
                [0.7644028663635254, 1.7355430126190186, 4.311502456665039],
                [0.906914234161377, 3.7659857273101807, 4.001270771026611],
                [-0.9934029579162598, 5.747467517852783, 4.1746015548706055],
            ],
        ),
        (np.float64, [0], [1], [2], [2.1], [[2.0057612041064043], [2.0739735891213953], [2.000085428732266]]),
        (
            np.float16,
            [0, 5],
            [1, 1],
            [-3, 4],
            [3, 6],
            [[0.08837890625, 4.07421875], [0.492919921875, 4.6640625], [0.006397247314453125, 5.74609375]],
        ),
    ],
)
def test_normals_between_bounds(
    dtype: type,
    means: list[float],
    deviations: list[float],
    low: list[float],
    high: list[float],
    want: list[list[float]],
) -> None:
    parameters = [np.array(p, dtype) for p in (means, deviations, low, high)]
    shape = np.array(np.shape(want))
    got = run_op("StatelessParameterizedTruncatedNormal", shape, PAIR, *parameters)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert got.dtype == dtype
    assert run_op("StatelessParameterizedTruncatedNormal", np.array([0, len(means)]), PAIR, *parameters).size == 0
