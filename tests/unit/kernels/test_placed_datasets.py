"""Datasets whose elements are asked for by their places."""

from __future__ import annotations

from collections.abc import Iterator as Generator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.kernels.test_dataset_ends import dataset_of, until_end


@pytest.fixture(autouse=True)
def graph() -> Generator[None, None, None]:
    with tf.Graph().as_default():
        yield


def shuffled(dataset: Any, seed: int = 7, reshuffle: bool = True) -> Any:
    """A dataset of scalars in a random order."""
    variant = tf.raw_ops.GlobalShuffleDataset(
        input_dataset=dataset.variant,
        seed=tf.constant(87654321, tf.int64),
        seed2=tf.constant(seed, tf.int64),
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        reshuffle_each_iteration=reshuffle,
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    return dataset_of(variant, tf.int64)


def passes(dataset: Any, count: int = 1) -> list[list[Any]]:
    iterator = dataset.make_initializable_iterator()
    following = iterator.get_next()
    with tf.Session() as session:
        out = []
        for _ in range(count):
            session.run(iterator.initializer)
            out.append([np.asarray(value).tolist() for value in until_end(session, following)])
        return out


DATASETS = {
    "range": lambda: tf.data.Dataset.range(1, 21, 2),
    "slices": lambda: tf.data.Dataset.from_tensor_slices([3, 1, 2]).map(lambda x: tf.cast(x, tf.int64)),
    "map": lambda: tf.data.Dataset.range(9).map(lambda x: x * x),
    "parallel map": lambda: tf.data.Dataset.range(9).map(lambda x: x * x, num_parallel_calls=2),
    "batch": lambda: tf.data.Dataset.range(11).batch(2, drop_remainder=True).map(lambda x: x[0] * 100 + x[1]),
    "skip and take": lambda: tf.data.Dataset.range(20).skip(3).take(5),
    "shard": lambda: tf.data.Dataset.range(11).shard(3, 1),
    "repeat": lambda: tf.data.Dataset.range(4).repeat(3),
    "zip": lambda: tf.data.Dataset.zip((tf.data.Dataset.range(5), tf.data.Dataset.range(9))).map(lambda a, b: a + b),
    "concatenate": lambda: tf.data.Dataset.range(3).concatenate(tf.data.Dataset.range(10, 14)),
    "cache": lambda: tf.data.Dataset.range(6).cache().prefetch(2),
}


@pytest.mark.parametrize("name", DATASETS)
def test_a_global_shuffle_gives_every_element_once(name: str) -> None:
    dataset = DATASETS[name]()
    (plain,) = passes(dataset)
    (both,) = passes(shuffled(dataset).repeat(2))
    first, second = both[: len(plain)], both[len(plain) :]
    assert sorted(first) == sorted(second) == sorted(plain)
    assert len(plain) < 5 or first != second
    (both,) = passes(shuffled(dataset, reshuffle=False).repeat(2))
    assert both[: len(plain)] == both[len(plain) :]


def test_a_global_shuffle_is_in_tensorflow_s_order() -> None:
    dataset = tf.data.Dataset.range(10).batch(2, drop_remainder=True).map(lambda x: x[0]).repeat(2)
    assert passes(shuffled(dataset)) == [[8, 0, 4, 2, 6, 6, 4, 0, 2, 8]]


def test_a_global_shuffle_of_a_global_shuffle() -> None:
    ((*values,),) = passes(shuffled(shuffled(tf.data.Dataset.range(12)), seed=3))
    assert sorted(values) == list(range(12)) != values


@pytest.mark.parametrize(
    ("dataset", "error", "text"),
    [
        (
            lambda: tf.data.Dataset.range(9).filter(lambda x: x > 3),
            tf.errors.FailedPreconditionError,
            "Filter does not",
        ),
        (lambda: tf.data.Dataset.range(9).repeat(), tf.errors.FailedPreconditionError, r"`repeat\(-1\)` does not"),
        (lambda: tf.data.Dataset.range(3).skip(3), tf.errors.FailedPreconditionError, "skipping the entire dataset"),
        (lambda: tf.data.Dataset.range(0), tf.errors.InvalidArgumentError, "non-empty finite cardinality"),
    ],
)
def test_what_cannot_be_shuffled_globally_says_why(dataset: Any, error: Any, text: str) -> None:
    iterator = shuffled(dataset()).make_initializable_iterator()
    with tf.Session() as session, pytest.raises(error, match=text):
        session.run(iterator.initializer)


def index_flat_map(rows: list[str], index: Any, size: int) -> Any:
    """The words of `rows`, with `index` as the function that tells where a word is."""
    source = tf.data.Dataset.from_tensor_slices(rows)
    split = tf.data.Dataset.from_tensor_slices(rows).map(lambda row: tf.string_split([row]).values)
    places = tf.data.Dataset.range(1).map(index)
    variant = tf.raw_ops.IndexFlatMapDataset(
        input_dataset=source.variant,
        map_func_other_args=[],
        index_map_func_other_args=[],
        output_cardinality=tf.constant(size, tf.int64),
        map_func=split.variant.op.get_attr("f"),
        index_map_func=places.variant.op.get_attr("f"),
        output_types=[tf.string],
        output_shapes=[[]],
    )
    return dataset_of(variant, tf.string)


def test_an_index_flat_map_takes_rows_apart() -> None:
    words = index_flat_map(["a b", "c d", "e f"], lambda i: (i // 2, i % 2), 6)
    assert passes(words.take(6)) == [[b"a", b"b", b"c", b"d", b"e", b"f"]]


def test_an_index_flat_map_says_that_an_offset_is_too_large() -> None:
    following = index_flat_map(["a b"], lambda i: (i, i + 5), 1).make_one_shot_iterator().get_next()
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="returns offset 5, but"),
    ):
        session.run(following)


def weighted(sizes: list[int], weights: list[float]) -> Any:
    starts = [1000 * i for i in range(len(sizes))]
    variant = tf.raw_ops.WeightedFlatMapDataset(
        input_datasets=[tf.data.Dataset.range(a, a + n).variant for a, n in zip(starts, sizes, strict=True)],
        weights=[tf.constant(weight, tf.float64) for weight in weights],
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    return dataset_of(variant, tf.int64)


def test_a_weighted_flat_map_takes_shares_until_one_source_is_used_up() -> None:
    (values,) = passes(weighted([100, 100, 10], [0.2, 0.3, 0.5]))
    assert values == [*range(4), *range(1000, 1006), *range(2000, 2010)]


def test_a_weight_must_be_positive() -> None:
    iterator = weighted([3, 3], [0.5, 0.0]).make_initializable_iterator()
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="Input 1 has a weight of 0"):
        session.run(iterator.initializer)


# Random numbers and fingerprints.


@pytest.mark.parametrize("rerandomize", [False, True])
def test_random_numbers_are_others_in_each_repetition_where_that_is_asked_for(rerandomize: bool) -> None:
    variant = tf.raw_ops.RandomDatasetV2(
        seed=tf.constant(1, tf.int64),
        seed2=tf.constant(2, tf.int64),
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=rerandomize,
        output_types=[tf.int64],
        output_shapes=[[]],
    )
    (values,) = passes(dataset_of(variant, tf.int64).take(4).repeat(2))
    assert (values[:4] != values[4:]) == rerandomize


def test_a_fingerprint_tells_datasets_apart_by_what_they_are_made_of() -> None:
    datasets = [tf.data.Dataset.range(n).map(lambda x: x + 1).batch(2) for n in (5, 5, 6)]
    prints = [tf.raw_ops.DatasetFingerprint(input_dataset=dataset.variant) for dataset in datasets]
    with tf.Session() as session:
        first, same, other = session.run(prints)
    assert first == same != other
