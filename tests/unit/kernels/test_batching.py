"""Steps that run at once and are computed together."""

from __future__ import annotations

from collections.abc import Iterator as Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

LONG = 3600 * 1_000_000
SOME = 50_000


@pytest.fixture(autouse=True)
def graph() -> Generator[None, None, None]:
    with tf.Graph().as_default():
        yield


def at_once(session: tf.Session, fetches: Any, feeds: list[dict[Any, Any]]) -> list[Any]:
    with ThreadPoolExecutor(len(feeds)) as pool:
        return list(pool.map(lambda feed: session.run(fetches, feed), feeds))


def batched_function(x: Any, body: Any, *captured: Any, **attrs: Any) -> Any:
    """`body` of batches, as its own function of the graph."""
    dataset = tf.data.Dataset.from_tensors(np.zeros([1], x.dtype.np)).map(body)
    settings = {"num_batch_threads": 1, "max_batch_size": 10, "batch_timeout_micros": SOME, **attrs}
    (out,) = tf.raw_ops.BatchFunction(
        in_tensors=[x], captured_tensors=list(captured), f=dataset.variant.op.get_attr("f"), Tout=[x.dtype], **settings
    )
    return out


def batch(x: Any, **attrs: Any) -> tuple[Any, Any, Any]:
    settings = {"num_batch_threads": 1, "max_batch_size": 2, "batch_timeout_micros": LONG, "grad_timeout_micros": 0}
    (rows,), index, key = tf.raw_ops.Batch(in_tensors=[x], **{**settings, **attrs})
    return rows, index, key


def test_every_step_gets_the_rows_it_gave() -> None:
    x = tf.placeholder(tf.int32, [None])
    y = batched_function(x, lambda rows: rows * 2, max_batch_size=4, batch_timeout_micros=LONG)
    with tf.Session() as session:
        results = at_once(session, y, [{x: [1]}, {x: [2, 3]}, {x: [4]}])
    assert [r.tolist() for r in results] == [[2], [4, 6], [8]]


def test_steps_of_a_batch_are_computed_at_once_and_padded() -> None:
    x = tf.placeholder(tf.int32, [None])
    sums = batched_function(x, lambda rows: rows * 0 + tf.reduce_sum(rows), allowed_batch_sizes=[4, 10])
    with tf.Session() as session:
        (alone,) = at_once(session, sums, [{x: [5, 6]}])
    assert alone.tolist() == [21, 21]  # 5 + 6, and twice the first row


def test_a_large_input_is_split() -> None:
    x = tf.placeholder(tf.int32, [None])
    y = batched_function(x, lambda rows: rows + 3, allowed_batch_sizes=[1, 2], enable_large_batch_splitting=True)
    with tf.Session() as session:
        assert session.run(y, {x: [5, 6, 7, 8, 9]}).tolist() == [8, 9, 10, 11, 12]


def test_an_error_reaches_every_step_of_the_batch() -> None:
    x = tf.placeholder(tf.float32, [None])
    y = batched_function(
        x, lambda rows: tf.debugging.check_numerics(rows, "bad"), max_batch_size=2, batch_timeout_micros=LONG
    )

    def code(value: float) -> Any:
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            session.run(y, {x: [value]})

    with tf.Session() as session, ThreadPoolExecutor(2) as pool:
        list(pool.map(code, [1.0, np.nan]))


@pytest.mark.parametrize(
    ("attrs", "rows", "text"),
    [
        ({}, 11, "Task size 11 is larger than maximum input batch size 10"),
        ({"allowed_batch_sizes": [4, 2, 10]}, 1, "monotonically increasing"),
        ({"allowed_batch_sizes": [4, 8]}, 1, "must equal max_batch_size"),
    ],
)
def test_what_cannot_be_batched_says_why(attrs: dict[str, Any], rows: int, text: str) -> None:
    x = tf.placeholder(tf.int32, [None])
    y = batched_function(x, lambda value: value, **attrs)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=text):
        session.run(y, {x: np.zeros(rows)})


def test_a_function_of_more_arguments_says_so() -> None:
    x = tf.placeholder(tf.int32, [None])
    y = batched_function(x, lambda rows: rows, tf.constant(1))
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"takes 1 argument\(s\) but 2 argument\(s\) were passed"),
    ):
        session.run(y, {x: [1]})


def test_one_step_of_a_batch_gets_all_rows() -> None:
    x = tf.placeholder(tf.int32, [None])
    rows, index, _ = batch(x)
    with tf.Session() as session:
        first, second = at_once(session, [rows, index], [{x: [1]}, {x: [2]}])
    whole, empty = (first, second) if len(first[0]) else (second, first)
    assert sorted(whole[0].tolist()) == [1, 2] and whole[1][:, 1:].tolist() == [[0, 1], [1, 2]]
    assert empty[0].shape == (0,) and empty[1].shape == (0, 3)


def test_unbatch_gives_rows_back() -> None:
    x = tf.placeholder(tf.int32, [None])
    rows, index, key = batch(x, max_batch_size=10, batch_timeout_micros=SOME, allowed_batch_sizes=[3, 10])
    y = tf.raw_ops.Unbatch(batched_tensor=rows + 1, batch_index=index, id=key, timeout_micros=60_000_000)
    with tf.Session() as session:
        results = at_once(session, y, [{x: [1]}, {x: [2, 3]}])
    assert [r.tolist() for r in results] == [[2], [3, 4]]


def test_unbatch_says_that_rows_do_not_come() -> None:
    nothing = np.zeros((0, 3), np.int64)
    y = tf.raw_ops.Unbatch(
        batched_tensor=tf.zeros([0]), batch_index=nothing, id=np.int64(7), timeout_micros=10, shared_name="shared"
    )
    with tf.Session() as session, pytest.raises(tf.errors.DeadlineExceededError, match="did not arrive within"):
        session.run(y)


def test_gradients_of_unbatch_come_together() -> None:
    index, key = tf.placeholder(tf.int64, [None, 3]), tf.placeholder(tf.int64, [])
    gradient = tf.placeholder(tf.float32, [None])
    y = tf.raw_ops.UnbatchGrad(original_input=tf.zeros([3]), batch_index=index, grad=gradient, id=key)
    places = np.array([[1, 0, 1], [2, 1, 2]])
    with tf.Session() as session:
        both = at_once(
            session, y, [{index: places, key: 1, gradient: [5.0]}, {index: places[:0], key: 2, gradient: [6.0]}]
        )
    assert [r.tolist() for r in both] == [[5.0, 6.0, 0.0], []]
