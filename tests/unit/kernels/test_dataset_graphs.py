"""Datasets that are written as graphs, and made of them again in sessions that know nothing else of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import graph_pb2
from tests.unit.kernels.test_dataset_ends import dataset_of, until_end

FAIL = 2


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def written(dataset: Any, **attrs: Any) -> bytes:
    with tf.Session() as session:
        content = session.run(tf.raw_ops.DatasetToGraphV2(input_dataset=dataset.variant, **attrs))
    assert isinstance(content, bytes)
    return content


def elements(dataset: Any) -> list[Any]:
    iterator = dataset.make_initializable_iterator()
    with tf.Session() as session:
        session.run(iterator.initializer)
        return [np.asarray(value).tolist() for value in until_end(session, iterator.get_next())]


def nested() -> Any:
    """Functions that call functions, and make datasets of datasets."""

    @tf.function
    def square(x: Any) -> Any:
        return x * x

    return tf.data.Dataset.range(1, 4).flat_map(lambda n: tf.data.Dataset.range(n).map(lambda x: square(x) + n))


def scaled(by: Any) -> Any:
    return tf.data.Dataset.range(4).map(lambda x: x * by)


DATASETS: dict[str, Callable[[], Any]] = {
    "range": lambda: tf.data.Dataset.range(1, 21, 2),
    "constants": lambda: tf.data.Dataset.from_tensor_slices(np.array([3, 1, 2], np.int64)),
    "functions": lambda: tf.data.Dataset.range(9).map(lambda x: x * x).filter(lambda x: x % 2 < 1),
    "captured": lambda: scaled(tf.constant(3, tf.int64)),
    "nested": nested,
    "shared": lambda: (lambda one: one.concatenate(one))(tf.data.Dataset.range(3)),
    "parallel": lambda: tf.data.Dataset.range(8).interleave(lambda x: tf.data.Dataset.range(x), 3, 2).prefetch(2),
    "strings": lambda: tf.data.Dataset.from_tensor_slices(["7", "8"]).map(lambda x: tf.string_to_number(x, tf.int64)),
}


@pytest.mark.parametrize("name", DATASETS)
def test_a_graph_of_a_dataset_makes_it_again(name: str) -> None:
    with tf.Graph().as_default():
        dataset = DATASETS[name]()
        want, content = elements(dataset), written(dataset)
    variant = tf.raw_ops.DatasetFromGraph(graph_def=content)
    again = dataset_of(variant, tf.int64)
    assert elements(again) == want and want
    assert written(again) == content, "what was read is written as it was"


def test_a_dataset_that_two_share_is_one_node_and_the_result_is_returned() -> None:
    graph_def = graph_pb2.GraphDef.FromString(written(DATASETS["shared"]()))
    ops = [node.op for node in graph_def.node]
    assert ops.count("RangeDataset") == 1 and ops.count("ConcatenateDataset") == 1
    result = graph_def.node[-1]
    assert (result.op, list(result.input)) == ("_Retval", [graph_def.node[-2].name])


def test_tasks_of_devices_are_left_out_where_that_is_asked_for() -> None:
    def placed(x: Any) -> Any:
        with tf.device("/job:worker/task:3/cpu:0"):
            return tf.add(x, x)

    dataset = tf.data.Dataset.range(2).map(placed)
    devices = [
        node.device
        for strips in (False, True)
        for function in graph_pb2.GraphDef.FromString(written(dataset, strip_device_assignment=strips)).library.function
        for node in function.node_def
        if node.op == "AddV2"
    ]
    assert devices == ["/job:worker/task:3/device:CPU:0", "/device:CPU:0"]


def test_state_outside_a_dataset_is_refused_where_that_is_asked_for() -> None:
    dataset = tf.data.Dataset.range(2).map(lambda x: x + tf.cast(tf.random_uniform([]), tf.int64))
    assert written(dataset)
    with pytest.raises(tf.errors.FailedPreconditionError, match="RandomUniform is stateful"):
        written(dataset, external_state_policy=FAIL)


def test_what_other_tasks_have_not_got_is_refused() -> None:
    table = tf.raw_ops.HashTableV2(key_dtype=tf.int64, value_dtype=tf.int64)
    dataset = tf.data.Dataset.range(2).map(
        lambda x: tf.raw_ops.LookupTableFindV2(table_handle=table, keys=x, default_value=tf.constant(7, tf.int64))
    )
    with pytest.raises(tf.errors.UnimplementedError, match="MapDataset cannot be written as a graph: it holds res"):
        written(dataset)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"\xff nothing", tf.errors.InvalidArgumentError),
        (graph_pb2.GraphDef().SerializeToString(), tf.errors.InvalidArgumentError),
    ],
)
def test_what_is_no_dataset_is_refused(content: bytes, error: type[Exception]) -> None:
    with tf.Session() as session, pytest.raises(error):
        session.run(tf.raw_ops.DatasetToGraphV2(input_dataset=tf.raw_ops.DatasetFromGraph(graph_def=content)))
