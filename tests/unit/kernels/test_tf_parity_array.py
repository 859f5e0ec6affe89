"""Array kernels at the edges where TensorFlow's own tests look: legacy scalars, error texts, odd types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework.errors import InvalidArgumentError
from tests.support.interpreter import run_op


def i32(*values: Any) -> np.ndarray:
    return np.array(values[0] if len(values) == 1 else values, np.int32)


def test_scalars_of_old_graphs_count_as_vectors_of_one() -> None:
    assert run_op("Reshape", i32([7]), i32(1)).tolist() == [7]
    assert run_op("Fill", i32([2]), i32([3])).tolist() == [3, 3]
    assert run_op("Fill", i32(2), i32(3)).tolist() == [3, 3]


@pytest.mark.parametrize(
    "values", [(i32(2), i32([3]), i32(7)), (i32([2]), i32(3), i32(7)), (i32([2]), i32([3]), i32(7))]
)
def test_concat_says_that_scalars_cannot_be_concatenated(values: tuple[np.ndarray, ...]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"Can't concatenate scalars \(use tf.stack instead\)"):
        run_op("ConcatV2", values, i32(0))


def test_padding_a_scalar_needs_no_rows() -> None:
    with pytest.raises(InvalidArgumentError, match="The first dimension of paddings must be the rank of inputs"):
        run_op("Pad", i32(7), i32([[1, 2]]))


@pytest.mark.parametrize(
    ("op", "inputs", "name"),
    [
        ("ShardedFilename", (b"foo", i32(4), i32([100])), "num_shards"),
        ("ShardedFilespec", (b"foo", i32([100])), "num_shards"),
    ],
)
def test_sharded_names_need_scalars(op: str, inputs: tuple[Any, ...], name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be a scalar"):
        run_op(op, *inputs)
