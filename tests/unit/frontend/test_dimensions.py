"""tf.Dimension: what TensorFlow 1 gives for each operator, also where a dimension is unknown."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import pytest

import dtfctl.runtime as tf

D = tf.Dimension


@pytest.mark.parametrize(
    ("apply", "known"),
    [
        (operator.lt, False),
        (operator.le, False),
        (operator.gt, True),
        (operator.ge, True),
        (operator.eq, False),
        (operator.ne, True),
    ],
)
def test_comparisons_are_none_where_a_side_is_unknown(apply: Any, known: bool) -> None:
    assert apply(D(7), 3) is known
    assert apply(D(7), D(3)) is known
    assert apply(D(None), 3) is None
    assert apply(D(3), None) is None
    assert apply(D(3), D(None)) is None


@pytest.mark.parametrize("apply", [operator.lt, operator.le, operator.gt, operator.ge])
def test_what_is_no_dimension_has_no_order(apply: Any) -> None:
    with pytest.raises(TypeError, match="not supported between"):
        apply(D(3), object())


@pytest.mark.parametrize(
    ("left", "apply", "right", "value"),
    [
        (D(7), operator.floordiv, 2, 3),
        (7, operator.floordiv, D(2), 3),
        (7, operator.mod, D(4), 3),
        (D(7), operator.mod, 4, 3),
        (7, operator.sub, D(4), 3),
        (7, operator.add, D(4), 11),
        (7, operator.mul, D(None), None),
        (7, operator.floordiv, D(None), None),
        (None, operator.mod, D(3), None),
    ],
)
def test_arithmetic_keeps_unknown(left: Any, apply: Any, right: Any, value: int | None) -> None:
    found = apply(left, right)
    assert isinstance(found, D)
    assert found.value == value


@pytest.mark.parametrize(("left", "right"), [(D(6), 2), (6, D(2)), (D(6), D(2))])
def test_true_division_says_what_to_write_instead(left: Any, right: Any) -> None:
    with pytest.raises(TypeError, match="//"):
        left / right


def test_merging_keeps_what_is_known() -> None:
    assert [D(a).merge_with(b).value for a, b in [(3, 3), (3, None), (None, 3), (None, None)]] == [3, 3, 3, None]
    with pytest.raises(ValueError, match="not compatible"):
        D(3).merge_with(4)


def test_unknown_and_empty_are_false() -> None:
    assert [bool(D(value)) for value in (None, 0, 3)] == [False, False, True]


def test_a_pickled_dimension_is_the_same() -> None:
    assert pickle.loads(pickle.dumps(D(3))) == 3


def test_a_tensor_is_added_to_a_dimension() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(D(3) + tf.constant(4)) == 7
