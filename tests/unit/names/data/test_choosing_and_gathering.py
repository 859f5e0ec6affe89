"""Datasets that choose among elements and among datasets, and that gather by key and by length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.programs.counterparts import random_access

Dataset = tf.data.Dataset


@pytest.fixture(autouse=True)
def graph() -> Generator[None, None, None]:
    with tf.Graph().as_default():
        yield


def elements(dataset: Any, most: int = 10**6) -> list[Any]:
    following = dataset.make_one_shot_iterator().get_next()
    found = []
    with tf.Session() as session:
        try:
            while len(found) < most:
                found.append(session.run(following))
        except tf.errors.OutOfRangeError:
            pass
    return [f.tolist() if isinstance(f, (np.ndarray, np.generic)) else f for f in found]


def test_elements_are_chosen() -> None:
    assert elements(Dataset.range(10).take_while(lambda x: x < 3)) == [0, 1, 2]
    assert elements(Dataset.from_tensor_slices([1, 2, 1, 3, 2]).unique()) == [1, 2, 3]
    bad = Dataset.from_tensor_slices([1.0, np.nan, 3.0]).map(lambda x: tf.debugging.check_numerics(x, "bad"))
    assert elements(bad.apply(tf.data.experimental.ignore_errors())) == [1.0, 3.0]
    with pytest.raises(ValueError, match="scalar boolean"):
        Dataset.range(3).take_while(lambda x: x)
    assert elements(Dataset.range(4, output_type=tf.int32)) == [0, 1, 2, 3]


def test_datasets_are_chosen() -> None:
    parts = [Dataset.from_tensors(i).repeat(3) for i in range(2)]
    choices = Dataset.from_tensor_slices(np.array([0, 1, 1, 1, 1, 0]))
    assert elements(Dataset.choose_from_datasets(parts, choices)) == [0, 1, 1, 1]
    assert elements(tf.data.experimental.choose_from_datasets(parts, choices)) == [0, 1, 1, 1, 0]
    with pytest.raises(TypeError, match="int64"):
        Dataset.choose_from_datasets(parts, Dataset.from_tensors(1.0))
    with pytest.raises(ValueError, match="compatible element specs"):
        Dataset.choose_from_datasets([parts[0], Dataset.from_tensors(1.0)], choices)


@pytest.mark.parametrize("as_dataset", [False, True])
def test_samples_come_as_often_as_their_weights_say(as_dataset: bool) -> None:
    parts = [Dataset.from_tensors(i).repeat() for i in range(3)]
    weights: Any = np.array([0.5, 0.0, 0.5])
    drawn = Dataset.sample_from_datasets(parts, Dataset.from_tensors(weights).repeat() if as_dataset else weights, 7)
    counts = Counter(elements(drawn, 400))
    assert counts[1] == 0 and abs(counts[0] - 200) < 60  # six standard deviations
    with pytest.raises(ValueError, match="weights"):
        Dataset.sample_from_datasets(parts, [0.5, 0.5])


def test_random_numbers_are_the_same_in_each_pass_or_not() -> None:
    once = Dataset.random(4).take(3)
    assert elements(once) == elements(once)
    assert elements(Dataset.random(4, rerandomize_each_iteration=False).take(2).repeat(2))[:2] == elements(once)[:2]
    anew = elements(Dataset.random(4, rerandomize_each_iteration=True).take(2).repeat(2))
    assert anew[:2] != anew[2:]


def test_elements_are_gathered_by_key() -> None:
    windows = Dataset.range(7).group_by_window(lambda x: x % 2, lambda key, window: window.batch(2), window_size=2)
    assert elements(windows) == [[0, 2], [1, 3], [4, 6], [5]]
    sized = Dataset.range(7).group_by_window(
        lambda x: x % 2, lambda key, window: window.batch(4), window_size_func=lambda key: key + 2
    )
    assert elements(sized) == [[0, 2], [1, 3, 5], [4, 6]]
    with pytest.raises(ValueError, match="not both"):
        Dataset.range(7).group_by_window(lambda x: x, lambda key, window: window)
    with pytest.raises(TypeError, match="Dataset"):
        Dataset.range(7).group_by_window(lambda x: x, lambda key, window: key, window_size=1)


def test_elements_are_gathered_by_length() -> None:
    lengths = Dataset.from_tensor_slices([1, 4, 2, 5, 3]).map(lambda n: tf.fill([n], n))
    buckets = lengths.bucket_by_sequence_length(lambda x: tf.size(x), [3], [2, 2])
    assert elements(buckets) == [[[1, 0], [2, 2]], [[4, 4, 4, 4, 0], [5, 5, 5, 5, 5]], [[3, 3, 3]]]
    with pytest.raises(ValueError, match="bucket_boundaries"):
        lengths.bucket_by_sequence_length(lambda x: tf.size(x), [3], [2])


def test_batches_change_their_size() -> None:
    batches = Dataset.range(8).batch(4)
    assert elements(batches.rebatch(3)) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert elements(batches.rebatch([1, 2], drop_remainder=True)) == [[0], [1, 2], [3], [4, 5], [6]]
    assert batches.rebatch(3, drop_remainder=True).output_shapes.as_list() == [3]


def test_an_iterators_place_is_in_checkpoints(tmp_path: Path) -> None:
    iterator = Dataset.range(10).make_initializable_iterator()
    following = iterator.get_next()
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, tf.data.experimental.make_saveable_from_iterator(iterator))
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert [session.run(following) for _ in range(3)] == [0, 1, 2]
        path = saver.save(session, str(tmp_path / "place"))
        session.run([following, following])
    with tf.Session() as session:
        session.run(iterator.initializer)
        saver.restore(session, path)
        assert session.run(following) == 3
    with pytest.raises(ValueError, match="fail"):
        tf.data.experimental.make_saveable_from_iterator(iterator, "never")


def test_elements_have_places() -> None:
    dataset = Dataset.range(10).map(lambda x: x * 2)
    shuffled = random_access._global_shuffle(dataset, seed=3)
    assert sorted(elements(shuffled)) == [2 * i for i in range(10)] != elements(shuffled)
    with tf.Session() as session:
        assert session.run(random_access.at(dataset, 7)) == 14


def test_rows_of_sparse_tensors_and_what_datasets_say_of_themselves() -> None:
    sparse = tf.SparseTensor([[0, 1], [2, 0]], [5.0, 6.0], [3, 2])
    rows = Dataset.from_sparse_tensor_slices(sparse)
    assert [values.tolist() for _, values, _ in elements(rows)] == [[5.0], [], [6.0]]
    assert rows.element_spec[1] == tf.TensorSpec([None], tf.float32)
    assert tf.data.get_output_classes(rows) == (tf.Tensor,) * 3
    with tf.Session() as session:
        assert session.run([Dataset.range(3).cardinality(), rows.repeat().cardinality()])[0] == 3
    options = tf.data.Options()
    options.experimental_threading.private_threadpool_size = 2
    assert (options.experimental_threading.private_threadpool_size, options.experimental_external_state_policy) == (
        2,
        None,
    )
    assert rows.with_options(options).repeat().options() is options
