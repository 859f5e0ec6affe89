"""Datasets, queues, tables and checkpoints through the front end and a Session."""

from __future__ import annotations

from collections.abc import Iterator as Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dtfctl.runtime.client.session import Session
from dtfctl.runtime.data import Dataset, Iterator, TextLineDataset, TFRecordDataset
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.errors import InvalidArgumentError, OutOfRangeError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_keys import set_random_seed
from dtfctl.runtime.kernels.io.records import write_tfrecords
from dtfctl.runtime.ops import lookup_ops, math_ops
from dtfctl.runtime.ops.array_ops import placeholder
from dtfctl.runtime.ops.op_defs import io


@pytest.fixture(autouse=True)
def graph() -> Generator[None, None, None]:
    with Graph().as_default():
        yield


def elements(dataset: Dataset) -> list[Any]:
    iterator = dataset.make_initializable_iterator()
    following = iterator.get_next()
    out: list[Any] = []
    with Session() as session:
        session.run(iterator.initializer)
        while True:
            try:
                out.append(session.run(following))
            except OutOfRangeError as e:
                assert e.message == "End of sequence"
                return out


def lists(dataset: Dataset) -> list[Any]:
    return [e.tolist() for e in elements(dataset)]


def test_ranges_maps_and_batches() -> None:
    dataset = Dataset.range(7).map(lambda x: x * x).batch(3)
    assert lists(dataset) == [[0, 1, 4], [9, 16, 25], [36]]
    assert dataset.output_shapes.as_list() == [None]


def test_structures() -> None:
    source = {"x": np.arange(3, dtype=np.float32), "y": np.array(["a", "b", "c"])}
    dataset = Dataset.from_tensor_slices(source).map(lambda e: (e["y"], e["x"] + 1.0))
    assert [(a, float(b)) for a, b in elements(dataset)] == [(b"a", 1.0), (b"b", 2.0), (b"c", 3.0)]


def test_tensorflows_shuffle_order() -> None:
    # What TensorFlow 2.21 gives for Dataset.range(10).shuffle(4, seed=3).repeat(3) after set_random_seed(1).
    set_random_seed(1)
    want = [1, 2, 5, 4, 0, 3, 7, 6, 9, 8, 2, 3, 0, 6, 1, 7, 9, 4, 8, 5, 2, 3, 5, 6, 7, 8, 0, 9, 4, 1]
    assert lists(Dataset.range(10).shuffle(4, seed=3).repeat(3)) == want


def test_shuffling_alike_each_time() -> None:
    dataset = Dataset.range(10).shuffle(10, seed=3, reshuffle_each_iteration=False).repeat(2)
    got = lists(dataset)
    assert got[:10] == got[10:] != list(range(10))


def test_nested_datasets() -> None:
    assert lists(Dataset.range(4).flat_map(lambda x: Dataset.range(x))) == [0, 0, 1, 0, 1, 2]
    interleaved = Dataset.range(2).interleave(lambda x: Dataset.range(x * 10, x * 10 + 3), 2, 2)
    assert lists(interleaved) == [0, 1, 10, 11, 2, 12]


def test_filters_zips_and_slices_of_sequences() -> None:
    even = Dataset.range(10).filter(lambda x: math_ops.equal(x % 2, 0))
    pairs = Dataset.zip((even, Dataset.range(5, 100))).skip(1).take(2)
    assert [(int(a), int(b)) for a, b in elements(pairs)] == [(2, 6), (4, 7)]
    assert lists(Dataset.range(3).concatenate(Dataset.range(7, 9)).shard(2, 0)) == [0, 2, 8]


def test_padding() -> None:
    dataset = Dataset.range(3).map(lambda x: math_ops.range(x)).padded_batch(3, padded_shapes=[None], padding_values=-1)
    assert lists(dataset) == [[[-1, -1], [0, -1], [0, 1]]]


def test_prefetch_and_parallel_map_keep_order() -> None:
    dataset = Dataset.range(50).map(lambda x: x + 1, num_parallel_calls=4).prefetch(3)
    assert lists(dataset) == list(range(1, 51))


def test_an_error_in_a_function_does_not_end_the_pass() -> None:
    dataset = Dataset.from_tensor_slices(np.array([4, 0, 2])).map(lambda x: 8 // x)
    iterator = dataset.make_initializable_iterator()
    following = iterator.get_next()
    with Session() as session:
        session.run(iterator.initializer)
        assert session.run(following) == 2
        with pytest.raises(InvalidArgumentError):
            session.run(following)
        assert session.run(following) == 4


def test_reduce_scan_and_cache() -> None:
    total = Dataset.range(5).reduce(np.int64(0), lambda a, b: a + b)
    with Session() as session:
        assert session.run(total) == 10
    running = Dataset.range(5).scan(np.int64(0), lambda s, x: (s + x, s + x)).cache().repeat(2)
    assert lists(running) == [0, 1, 3, 6, 10] * 2


def test_one_shot_and_feedable_iterators() -> None:
    once = Dataset.range(3).map(lambda x: x * 2).make_one_shot_iterator().get_next()
    source = Dataset.range(5, 8).make_initializable_iterator()
    handle = placeholder(dtypes.string, [])
    fed = Iterator.from_string_handle(handle, dtypes.int64, []).get_next()
    with Session() as session:
        assert [int(session.run(once)) for _ in range(3)] == [0, 2, 4]
        session.run(source.initializer)
        name = session.run(source.string_handle())
        assert [int(session.run(fed, {handle: name})) for _ in range(3)] == [5, 6, 7]


def test_files(tmp_path: Path) -> None:
    lines, records = tmp_path / "lines", tmp_path / "records"
    lines.write_text("a\nb\r\n\nc")
    write_tfrecords(str(records), [b"one", b""])
    assert elements(TextLineDataset([str(lines)])) == [b"a", b"b", b"", b"c"]
    assert elements(TFRecordDataset(str(records))) == [b"one", b""]


def test_tables() -> None:
    table = lookup_ops.StaticHashTable(lookup_ops.KeyValueTensorInitializer(["a", "b"], np.array([1, 2])), -1)
    found = table.lookup(constant(["b", "z"]))
    with Session() as session:
        session.run(lookup_ops.tables_initializer())
        assert session.run(found).tolist() == [2, -1]


def test_saving_and_restoring(tmp_path: Path) -> None:
    prefix = str(tmp_path / "m")
    save = io.save_v2(prefix, ["a", "b"], ["", ""], [np.ones(3, np.float32), "text"])
    load = io.restore_v2(prefix, ["b", "a"], ["", "3 1,2"], [dtypes.string, dtypes.float32])
    with Session() as session:
        session.run(save)
        text, ones = session.run(load)
    assert text == b"text" and ones.tolist() == [1, 1]
