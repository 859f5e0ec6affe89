"""Datasets of Example messages taken apart a batch at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dtfctl.protocol import example_pb2
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.data import Dataset
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_nested, apply_op_outputs, make_op


def example(number: float | None, words: list[bytes], ids: list[int]) -> bytes:
    message = example_pb2.Example()
    if number is not None:
        message.features.feature["number"].float_list.value.append(number)
    message.features.feature["words"].bytes_list.value.extend(words)
    message.features.feature["ids"].int64_list.value.extend(ids)
    return message.SerializeToString()


MESSAGES = [example(1.5, [b"a", b"b"], [7]), example(None, [], [8, 9]), example(2.5, [b"c"], [])]


def parsed(op: str, source: Dataset, parallel: int = 2, **attrs: Any) -> tuple[Any, ...]:
    """The first element: sparse `ids`, dense `number`, and ragged `words` unless the op knows no ragged features."""
    ragged = op != "ExperimentalParseExampleDataset"
    if ragged:
        attrs |= {
            "ragged_keys": ["words"],
            "ragged_value_types": [dtypes.string],
            "ragged_split_types": [dtypes.int32],
        }
    types, shapes = [dtypes.variant, dtypes.float32], [[3], [None]]
    if ragged:
        types, shapes = [*types, dtypes.variant], [*shapes, []]
    variant = apply_op(
        op,
        input_dataset=source.variant,
        num_parallel_calls=np.int64(parallel),
        dense_defaults=[np.float32(-1)],
        sparse_keys=["ids"],
        sparse_types=[dtypes.int64],
        dense_keys=["number"],
        dense_shapes=[[]],
        output_types=types,
        output_shapes=shapes,
        **attrs,
    )
    iterator = apply_op("IteratorV2", shared_name="", container="", output_types=types, output_shapes=shapes)
    start = make_op("MakeIterator", dataset=variant, iterator=iterator)
    out = apply_op_outputs("IteratorGetNext", iterator=iterator, output_types=types, output_shapes=shapes)
    sparse = apply_op_outputs("DeserializeSparse", serialized_sparse=out[0], dtype=dtypes.int64)
    fetches = [*sparse, out[1]]
    if ragged:
        splits, values = apply_op_nested(
            "RaggedTensorFromVariant",
            encoded_ragged=out[2],
            input_ragged_rank=1,
            output_ragged_rank=1,
            Tvalues=dtypes.string,
            Tsplits=dtypes.int32,
        )
        fetches += [*splits, values]
    with Session() as session:
        session.run(start)
        return tuple(v.tolist() for v in session.run(fetches))


@pytest.mark.parametrize("op", ["ParseExampleDataset", "ParseExampleDatasetV2", "ExperimentalParseExampleDataset"])
def test_components_in_the_order_of_their_names(op: str) -> None:
    with Graph().as_default():
        indices, ids, shape, numbers, *words = parsed(op, Dataset.from_tensors(MESSAGES))
    assert (indices, ids, shape) == ([[0, 0], [1, 0], [1, 1]], [7, 8, 9], [3, 2])
    assert numbers == [1.5, -1.0, 2.5]
    if op != "ExperimentalParseExampleDataset":
        assert words == [[0, 2, 2, 3], [b"a", b"b", b"c"]]


def test_only_vectors_of_strings_are_parsed() -> None:
    op = "ParseExampleDatasetV2"
    with Graph().as_default(), pytest.raises(InvalidArgumentError, match=r"Expected a vector.* got shape: \[\]"):
        parsed(op, Dataset.from_tensors(MESSAGES[0]))
    with Graph().as_default(), pytest.raises(InvalidArgumentError, match="single string component, got: int64"):
        parsed(op, Dataset.range(3))
    with Graph().as_default(), pytest.raises(InvalidArgumentError, match="num_parallel_calls must be greater than"):
        parsed(op, Dataset.from_tensors(MESSAGES), parallel=0)
    with Graph().as_default(), pytest.raises(InvalidArgumentError, match="Could not parse example input"):
        parsed(op, Dataset.from_tensors([b"no message"]))


def test_strings_keep_their_zero_bytes_on_their_way_into_a_dataset() -> None:
    strings = [b"a\0", b"bcd\0\0", b""]
    with Graph().as_default():
        following = Dataset.from_tensors(strings).make_one_shot_iterator().get_next()
        with Session() as session:
            assert session.run(following).tolist() == strings
