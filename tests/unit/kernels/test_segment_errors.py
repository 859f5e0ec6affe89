"""What segment reductions say of ids and sizes that lead nowhere; texts from TensorFlow 2.21."""

from __future__ import annotations

import re

import numpy as np
import pytest

from dtfctl.runtime.framework.errors import InvalidArgumentError
from tests.support.interpreter import run_op

UNSORTED = ", possibly because 'segment_ids' input is not sorted"


def i64(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([0, 1, 2, 0], f"Segment id 1 out of range [0, 1){UNSORTED}"),
        ([0, 1, 0, 1], "segment ids are not increasing"),
        ([-1, 0, 1, 1], f"Segment id -1 out of range [0, 2){UNSORTED}"),
        ([2, 2, 0, 1], "segment ids are not increasing"),
        ([0, 0, 0, -1], "segment ids must be >= 0"),
    ],
)
def test_unsorted_ids(ids: list[int], message: str) -> None:
    data = np.ones((4, 2), np.float32)
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        run_op("SegmentSum", data, i64(*ids))
    with pytest.raises(InvalidArgumentError, match=re.escape(message)):
        run_op("SparseSegmentMean", data, i64(0, 1, 2, 3), i64(*ids))


@pytest.mark.parametrize("version", ["Grad", "GradV2"])
@pytest.mark.parametrize(
    ("rows", "ids", "message"),
    [
        (3, [0, 1, 1, 4], "Invalid number of segments"),
        (1, [0, 1, 2, 0], "Segment id 1 out of range [0, 1)"),
        (2, [-1, 0, 1, 1], "Segment id -1 out of range [0, 2)"),
        (0, [0, 1, 2, -1], "Segment id 0 out of range [0, 0)"),
    ],
)
def test_gradients(version: str, rows: int, ids: list[int], message: str) -> None:
    grad = np.ones((rows, 4), np.float32)
    for kind in ("Sum", "Mean", "SqrtN"):
        with pytest.raises(InvalidArgumentError, match=re.escape(message)):
            run_op(f"SparseSegment{kind}{version}", grad, i64(8, 3, 0, 9), i64(*ids), np.array(10, np.int32))


def test_gradients_of_rows_that_are_not_there() -> None:
    grad, indices, ids = np.ones((3, 4), np.float32), i64(8, 10, 0, 9), i64(0, 1, 2, 2)
    with pytest.raises(InvalidArgumentError, match=r"Index 10 out of range \[0, 10\)"):
        run_op("SparseSegmentSumGrad", grad, indices, ids, np.array(10, np.int32))


def test_outputs_that_cannot_be_counted() -> None:
    overflow = "Encountered overflow when multiplying"
    with pytest.raises(InvalidArgumentError, match=overflow):
        run_op("UnsortedSegmentSum", np.ones(3), np.array(898042203), np.array(8327099846119777499))
    with pytest.raises(InvalidArgumentError, match=overflow):
        run_op("SparseSegmentSum", np.ones((10, 4)), i64(2**62 - 1), i64(2**62 - 1))
