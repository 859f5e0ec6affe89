"""What takes or adds up rows by number as machine code: values, gradients, and numbers that choose nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework.errors import InvalidArgumentError
from tests.unit.executor import test_regions
from tests.unit.executor.test_regions import F, both, plans, regions, same

at_once = test_regions.at_once

RANDOM = np.random.default_rng(3)
TABLE = RANDOM.standard_normal((9, 4)).astype(F)
ROWS = np.array([[3, 0, 3], [8, 1, 0]], np.int64)
PLACES = np.array([[0, 1], [0, 3], [2, 0], [2, 2], [2, 4], [4, 1]], np.int64)
VALUES = RANDOM.standard_normal(6).astype(F)
DENSE = RANDOM.standard_normal((5, 3)).astype(F)


def sparse(values: Any) -> Any:
    return tf.SparseTensor(tf.constant(PLACES), values, [5, 5])


def unsorted(x: Any, numbers: Any) -> Any:
    return tf.math.unsorted_segment_sum(x, tf.constant(numbers), 5)


CASES: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "rows": (lambda x: tf.gather(x, tf.constant(ROWS)), TABLE),
    "columns": (lambda x: tf.gather(x, tf.constant(ROWS % 4), axis=1), TABLE),
    "places": (lambda x: tf.gather_nd(x, tf.constant(PLACES[:, ::-1] % 4)), TABLE),
    "rows by place": (lambda x: tf.gather_nd(x, tf.constant(PLACES[:, :1])), TABLE),
    "sums": (lambda x: unsorted(x, [4, 0, 0, 2, 4, 4, 2, 0, 4]), TABLE),
    "sums of some": (lambda x: unsorted(x, [4, -1, 0, 2, -7, 4, 2, 0, 4]), TABLE),
    "sums of numbers": (lambda x: unsorted(x, (ROWS[:, :2] % 4)), TABLE[:2, :2]),
    "sparse softmax": (lambda v: tf.sparse.softmax(sparse(v)).values, VALUES),
    "sparse sum": (lambda v: tf.sparse.reduce_sum(sparse(v), 1, keepdims=True), VALUES),
    "sparse sum of columns": (lambda v: tf.sparse.reduce_sum(sparse(v), 0), VALUES),
    "sparse sum of all": (lambda v: tf.sparse.reduce_sum(sparse(v)), VALUES),
    "sparse product": (lambda v: tf.sparse.matmul(sparse(v), DENSE), VALUES),
    "its other factor": (lambda d: tf.sparse.matmul(sparse(tf.constant(VALUES)), d), DENSE),
    "transposed": (lambda d: tf.sparse.matmul(sparse(tf.constant(VALUES)), d, adjoint_a=True), DENSE),
    "both transposed": (
        lambda d: tf.sparse.matmul(sparse(tf.constant(VALUES)), d, adjoint_a=True, adjoint_b=True),
        np.ascontiguousarray(DENSE.T),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    compute, value = CASES[name]

    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, value.shape)
        y = tf.tanh(compute(x * 1.5) * 0.7)
        return [y, *tf.gradients(tf.reduce_sum(y * y), [x])], {x: value}

    same(*both(make))


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_cross_entropy_by_label(dtype: Any) -> None:
    def make() -> tuple[Any, dict[Any, Any]]:
        x, labels = tf.placeholder(tf.float32, [9, 4]), tf.placeholder(dtype, [9])
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x * 3.0)
        return [loss, *tf.gradients(tf.reduce_mean(loss), [x])], {x: TABLE, labels: np.arange(9) % 4}

    same(*both(make))


def _chosen(numbers: Any) -> dict[str, Any]:
    x = tf.placeholder(tf.float32, [9, 4])
    return {
        "rows": tf.tanh(tf.gather(x, numbers)),
        "places": tf.tanh(tf.gather_nd(x, numbers[:, None])),
        "sums": tf.tanh(tf.math.unsorted_segment_sum(x, numbers, 9)),
        "labels": tf.tanh(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=numbers // 3, logits=x)),
        "x": x,
    }


@pytest.mark.parametrize("name", ["rows", "places", "sums", "labels"])
@pytest.mark.parametrize("wrong", [9, 1 << 30, -10])
def test_numbers_that_choose_nothing_are_refused(name: str, wrong: int) -> None:
    """The kernel says what is wrong, whatever was run before; and what is right goes on."""
    with tf.Graph().as_default(), tf.Session() as session:
        numbers = tf.placeholder(tf.int32, [9])
        made = _chosen(numbers)
        right = np.arange(9, dtype=np.int32)
        feeds = {made["x"]: TABLE, numbers: right}
        for _ in range(4):
            want = session.run(made[name], feeds)
        assert regions(session)
        bad = right.copy()
        bad[5] = wrong * 3 if name == "labels" and wrong < 1 << 20 else wrong
        if name == "sums" and wrong < 0:
            got = session.run(made[name], {made["x"]: TABLE, numbers: bad})
            np.testing.assert_array_equal(np.delete(got, 5, 0), np.delete(want, 5, 0))
            np.testing.assert_array_equal(got[5], np.zeros(4, F))
        else:
            with pytest.raises(InvalidArgumentError):
                session.run(made[name], {made["x"]: TABLE, numbers: bad})
        np.testing.assert_array_equal(session.run(made[name], feeds), want)


def test_places_of_a_sparse_value_are_looked_at_along_what_is_added_up() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        places, values = tf.placeholder(tf.int64, [6, 2]), tf.placeholder(tf.float32, [6])
        total = tf.tanh(tf.sparse.reduce_sum(tf.SparseTensor(places, values, [5, 5]), 1))
        for _ in range(4):
            session.run(total, {places: PLACES, values: VALUES})
        assert regions(session)
        wrong = PLACES.copy()
        wrong[4, 1] = 5
        with pytest.raises(InvalidArgumentError, match="out of bounds"):
            session.run(total, {places: wrong, values: VALUES})


def test_numbers_that_are_computed_are_looked_at_too() -> None:
    """What a region computes itself cannot be looked at before it begins: no region chooses by it."""
    with tf.Graph().as_default(), tf.Session() as session:
        x, numbers = tf.placeholder(tf.float32, [9, 4]), tf.placeholder(tf.int32, [9])
        y = tf.tanh(tf.gather(x, numbers * 2 - numbers)) + 1.0
        for _ in range(4):
            got = session.run(y, {x: TABLE, numbers: np.arange(9)})
        assert plans(session)
        np.testing.assert_allclose(got, np.tanh(TABLE) + 1, rtol=1e-5)
        with pytest.raises(InvalidArgumentError):
            session.run(y, {x: TABLE, numbers: np.arange(9) + 1})


def test_what_is_at_one_place_twice_is_multiplied_one_by_one() -> None:
    dense = np.array([[1, 2, np.inf], [1e-3, 0, -np.inf]], F)

    def make() -> tuple[Any, dict[Any, Any]]:
        x = tf.placeholder(tf.float32, dense.shape)
        values = tf.constant(np.array([3e38, 3e38, 2, -1], F))
        places = tf.constant(np.array([[0, 1], [0, 1], [2, 0], [0, 1]], np.int64))
        product = tf.sparse.matmul(tf.SparseTensor(places, values, [3, 2]), x)
        return [product, product * 0.5], {x: dense}

    for given in both(make):
        # Added up first, the two were infinite, and no number times zero.
        np.testing.assert_allclose(given[0][0], [6e35, 0, np.nan], rtol=1e-6)
        np.testing.assert_array_equal(given[0][1:], np.array([[0, 0, 0], [2, 4, np.inf]], F))
