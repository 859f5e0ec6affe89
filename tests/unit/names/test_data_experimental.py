"""`tf.data.experimental`: what programs apply to datasets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

experimental = tf.data.experimental


def elements(dataset: Any) -> list[Any]:
    """All elements, of the graph that is open."""
    item = dataset.make_one_shot_iterator().get_next()
    found = []
    with tf.Session() as session:
        while True:
            try:
                found.append(session.run(item))
            except tf.errors.OutOfRangeError:
                return found


@pytest.fixture(autouse=True)
def graph() -> Any:
    with tf.Graph().as_default() as opened:
        yield opened


def test_elements_of_one_key_come_in_windows() -> None:
    numbers = tf.data.Dataset.range(10)
    even = numbers.apply(experimental.group_by_window(lambda x: x % 2, lambda key, window: window.batch(3), 3))
    assert [list(b) for b in elements(even)] == [[0, 2, 4], [1, 3, 5], [6, 8], [7, 9]]
    by_key = numbers.apply(
        experimental.group_by_window(
            lambda x: x % 2, lambda key, window: window.batch(9), window_size_func=lambda key: key * 2 + 2
        )
    )
    assert [list(b) for b in elements(by_key)] == [[0, 2], [4, 6], [1, 3, 5, 7], [8], [9]]
    with pytest.raises(ValueError, match="window_size"):
        numbers.apply(experimental.group_by_window(lambda x: x, lambda k, w: w))


def test_sentences_are_batched_with_others_of_their_length() -> None:
    lengths = [1, 5, 2, 7, 1, 6]
    sentences = tf.data.Dataset.from_generator(
        lambda: ([[n] * n, n] for n in lengths), (tf.int32, tf.int32), ([None], [])
    )
    buckets = experimental.bucket_by_sequence_length(lambda words, n: tf.size(words), [3], [2, 2])
    found = [(words.tolist(), n.tolist()) for words, n in elements(sentences.apply(buckets))]
    assert found == [
        ([[1, 0], [2, 2]], [1, 2]),
        ([[5, 5, 5, 5, 5, 0, 0], [7, 7, 7, 7, 7, 7, 7]], [5, 7]),
        ([[1]], [1]),
        ([[6, 6, 6, 6, 6, 6]], [6]),
    ]
    with pytest.raises(ValueError, match="bucket_batch_sizes"):
        sentences.apply(experimental.bucket_by_sequence_length(lambda words, n: n, [3], [2]))


def test_datasets_are_chosen_and_drawn() -> None:
    a, b = tf.data.Dataset.from_tensors(1).repeat(), tf.data.Dataset.from_tensors(2).repeat()
    order = tf.data.Dataset.from_tensor_slices(np.array([0, 1, 1, 0]))
    assert elements(experimental.choose_from_datasets([a, b], order)) == [1, 2, 2, 1]
    drawn = elements(experimental.sample_from_datasets([a, b], [0.9, 0.1], seed=3).take(400))
    assert 0.8 < drawn.count(1) / 400 < 1.0
    with pytest.raises(TypeError, match="int64"):
        experimental.choose_from_datasets([a, b], tf.data.Dataset.from_tensors("a"))


def test_what_is_left_out() -> None:
    numbers = tf.data.Dataset.from_tensor_slices([1.0, 2.0, 2.0, 0.0, 4.0])
    assert elements(numbers.apply(experimental.unique())) == [1.0, 2.0, 0.0, 4.0]
    assert elements(numbers.apply(experimental.take_while(lambda x: x > 0.0))) == [1.0, 2.0, 2.0]
    checked = numbers.map(lambda x: tf.check_numerics(1.0 / x, "by zero"))
    assert elements(checked.apply(experimental.ignore_errors())) == [1.0, 0.5, 0.5, 0.25]


def test_counting_and_the_only_element() -> None:
    numbers = tf.data.Dataset.range(4)
    one = experimental.get_single_element(numbers.batch(4))
    with tf.Session() as session:
        assert session.run(one).tolist() == [0, 1, 2, 3]
        assert session.run(experimental.cardinality(numbers)) == 4
        assert session.run(experimental.cardinality(numbers.repeat())) == experimental.INFINITE_CARDINALITY
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(experimental.get_single_element(numbers))
    assert elements(experimental.Counter(10, 5).take(3)) == [10, 15, 20]
    assert elements(numbers.apply(experimental.enumerate_dataset(7)))[0] == (7, 0)
    with pytest.raises(tf.errors.FailedPreconditionError):
        elements(numbers.apply(experimental.assert_cardinality(5)))
