"""Datasets that work on several elements at a time: that they do, in which order elements come, and their options."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.data import Dataset
from dtfctl.runtime.framework.op_builder import apply_op

WAIT_S = 60
ANY_ORDER = b"\x08\x00"


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


class Taker:
    """Elements of a dataset one by one."""

    def __init__(self, dataset: Dataset) -> None:
        iterator = dataset.make_initializable_iterator()
        self._next = iterator.get_next()
        self._session = tf.Session()
        self._session.run(iterator.initializer)

    def __call__(self) -> Any:
        return self._session.run(self._next).tolist()

    def rest(self) -> list[Any]:
        out = []
        while True:
            try:
                out.append(self())
            except tf.errors.OutOfRangeError:
                self._session.close()
                return out


def calling(function: Callable[[int], None]) -> Callable[[Any], Any]:
    """A map function that calls `function` and gives the element back."""

    def same(x: Any) -> Any:
        function(int(x))
        return np.int64(x)

    def mapped(x: Any) -> Any:
        out = tf.py_func(same, [x], tf.int64)
        out.set_shape([])
        return out

    return mapped


def with_options(dataset: Dataset, options: bytes) -> Dataset:
    variant = apply_op(
        "OptionsDataset",
        input_dataset=dataset.variant,
        serialized_options=options,
        output_types=list(dataset.structure.types),
        output_shapes=list(dataset.structure.shapes),
    )
    return Dataset(variant, dataset.structure)


def test_maps_run_side_by_side() -> None:
    together = threading.Barrier(3)
    dataset = Dataset.range(6).map(calling(lambda _: together.wait(WAIT_S) and None), num_parallel_calls=3)
    assert Taker(dataset).rest() == list(range(6))


def test_a_slow_element_keeps_its_place() -> None:
    done = threading.Event()

    def wait(x: int) -> None:
        if x == 1:
            done.set()
        elif x == 0:
            assert done.wait(WAIT_S)

    assert Taker(Dataset.range(4).map(calling(wait), num_parallel_calls=2)).rest() == [0, 1, 2, 3]


@pytest.mark.parametrize("how", ["argument", "options"])
def test_what_is_ready_comes_first_when_any_order_will_do(how: str) -> None:
    taken = threading.Event()

    def wait(x: int) -> None:
        if x == 0:
            assert taken.wait(WAIT_S)

    dataset = Dataset.range(3).map(
        calling(wait), num_parallel_calls=2, deterministic=False if how == "argument" else None
    )
    take = Taker(with_options(dataset, ANY_ORDER) if how == "options" else dataset)
    first = [take(), take()]
    taken.set()
    assert first == [1, 2]
    assert take.rest() == [0]


def test_an_error_stands_in_the_place_of_its_element() -> None:
    def fail(x: int) -> None:
        if x == 1:
            raise ValueError("not this one")

    take = Taker(Dataset.range(3).map(calling(fail), num_parallel_calls=3))
    assert take() == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="not this one"):
        take()
    assert take.rest() == [2]


@pytest.mark.parametrize(("cycle", "block"), [(1, 1), (2, 1), (3, 2), (4, 3), (9, 1)])
def test_parallel_interleave_has_the_order_of_the_plain_one(cycle: int, block: int) -> None:
    def parts(x: Any) -> Dataset:
        return Dataset.range(10 * x, 10 * x + x % 4)

    plain = Dataset.range(9).interleave(parts, cycle, block)
    parallel = Dataset.range(9).interleave(parts, cycle, block, num_parallel_calls=2)
    assert Taker(parallel).rest() == Taker(plain).rest()


def test_interleaved_datasets_are_read_side_by_side() -> None:
    together = threading.Barrier(2)

    def parts(x: Any) -> Dataset:
        return Dataset.from_tensors(x).map(calling(lambda _: together.wait(WAIT_S) and None))

    assert Taker(Dataset.range(4).interleave(parts, 2, 1, num_parallel_calls=2)).rest() == [0, 1, 2, 3]


def test_interleave_in_any_order_passes_a_slow_dataset() -> None:
    taken = threading.Event()

    def wait(x: int) -> None:
        if x == 0:
            assert taken.wait(WAIT_S)

    def parts(x: Any) -> Dataset:
        return Dataset.from_tensors(x).map(calling(wait))

    take = Taker(Dataset.range(3).interleave(parts, 2, 1, num_parallel_calls=2, deterministic=False))
    first = [take(), take()]
    taken.set()
    assert first == [1, 2]
    assert take.rest() == [0]


def test_a_dataset_that_cannot_be_made_is_an_error_in_its_place() -> None:
    def parts(x: Any) -> Dataset:
        with tf.control_dependencies([tf.assert_none_equal(x, tf.constant(1, tf.int64), message="no such part")]):
            return Dataset.range(10 * x, 10 * x + 2)

    take = Taker(Dataset.range(3).interleave(parts, 2, 1, num_parallel_calls=2))
    assert take() == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="no such part"):
        take()
    assert sorted(take.rest()) == [1, 20, 21]


def test_options_of_a_dataset_are_those_it_was_made_with() -> None:
    slack, autotune = b"\x20\x01", b"\x3a\x02\x08\x00"
    dataset = with_options(with_options(Dataset.range(3), slack).map(lambda x: x + 1).batch(2), autotune)
    zipped = Dataset.zip((dataset, with_options(Dataset.range(3), ANY_ORDER)))
    options = [apply_op("GetOptions", input_dataset=d.variant) for d in (Dataset.range(3), dataset, zipped)]
    with tf.Session() as session:
        assert session.run(options) == [b"", slack + autotune, slack + autotune + ANY_ORDER]


def test_options_that_are_no_message() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse the options"):
        Taker(with_options(Dataset.range(3), b"\x08"))


@pytest.mark.parametrize("count", [0, -2])
def test_how_many_at_a_time(count: int) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"num_parallel_calls must be greater than zero\."):
        Taker(Dataset.range(3).map(lambda x: x, num_parallel_calls=count))
