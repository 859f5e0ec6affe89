"""Assertions, sorting and the confusion matrix."""

from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.ops import array_ops, check_ops, sort_ops
from tests.support.interpreter import Interpreter


def _value(make: Any) -> Any:
    with Graph().as_default() as graph:
        tensor = make()
        return Interpreter(graph.as_graph_def()).run([tensor.name])[0]


def test_known_values_are_checked_while_building() -> None:
    with Graph().as_default():
        check_ops.assert_equal([1, 2], [1, 2])
        check_ops.assert_positive([1.0, 2.0])
        with pytest.raises(InvalidArgumentError, match="x == y did not hold"):
            check_ops.assert_equal([1, 2], [1, 3])
        with pytest.raises(InvalidArgumentError):
            check_ops.assert_non_negative([-1])


def test_unknown_values_become_assert_ops() -> None:
    with Graph().as_default():
        x = array_ops.placeholder(dtypes.float32)
        op = check_ops.assert_less(x, 1.0)
        assert op.type == "Assert"
        assert check_ops.assert_rank(x, 2).type == "Assert"


def test_static_ranks_and_types() -> None:
    with Graph().as_default():
        x = array_ops.placeholder(dtypes.float32, [None, 3])
        check_ops.assert_rank(x, 2)
        check_ops.assert_rank_in(x, (1, 2))
        with pytest.raises(ValueError, match="must have rank 3"):
            check_ops.assert_rank(x, 3)
        with pytest.raises(TypeError):
            check_ops.assert_integer(x)
        assert check_ops.is_numeric_tensor(x)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_sort(dtype: Any, axis: int) -> None:
    x = np.random.default_rng(0).permutation(12).reshape(3, 4).astype(dtype)
    np.testing.assert_array_equal(_value(lambda: sort_ops.sort(x, axis)), np.sort(x, axis))
    np.testing.assert_array_equal(_value(lambda: sort_ops.argsort(x, axis)), np.argsort(x, axis))
    descending = _value(lambda: sort_ops.sort(x, axis, "DESCENDING"))
    np.testing.assert_array_equal(descending, np.flip(np.sort(x, axis), axis))


def test_confusion_matrix() -> None:
    got = _value(lambda: sort_ops.confusion_matrix([0, 1, 2, 2], [0, 2, 2, 1]))
    np.testing.assert_array_equal(got, [[1, 0, 0], [0, 0, 1], [0, 1, 1]])
