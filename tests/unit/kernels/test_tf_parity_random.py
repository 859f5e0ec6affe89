"""Random kernels; values from TensorFlow 2.21."""

from __future__ import annotations

import numpy as np
import pytest

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
