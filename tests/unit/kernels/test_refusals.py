"""What kernels refuse is the same kind of error as in TensorFlow, and what is odd but right is not refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf


def ragged_cross(values: Any, splits: list[int]) -> Any:
    return tf.raw_ops.RaggedCross(
        ragged_values=[tf.constant(values)],
        ragged_row_splits=[tf.constant(splits, tf.int64)],
        sparse_indices=[],
        sparse_values=[],
        sparse_shape=[],
        dense_inputs=[],
        input_order="R",
        hashed_output=False,
        num_buckets=0,
        hash_key=1,
        out_values_type=tf.string,
        out_row_splits_type=tf.int64,
    )


def unordered_slices() -> Any:
    indices, shape = tf.constant([[1, 0], [0, 0]], tf.int64), tf.constant([2, 1], tf.int64)
    return tf.raw_ops.SparseTensorSliceDataset(indices=indices, values=tf.constant([1.0, 2.0]), dense_shape=shape).op


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: ragged_cross([b"a"], []), tf.errors.InvalidArgumentError, "Invalid ragged splits"),
        (lambda: ragged_cross([[b"a"]], [0, 1]), tf.errors.InvalidArgumentError, "only supports inputs with rank=2"),
        (
            lambda: tf.raw_ops.SobolSample(dim=2560, num_results=16384000, skip=0),
            tf.errors.InvalidArgumentError,
            r"num_results\*dim must be less than 2147483647",
        ),
        (
            lambda: tf.raw_ops.SobolSample(dim=2, num_results=2, skip=2147483646),
            tf.errors.InvalidArgumentError,
            r"num_results\+skip must be less than 2147483647",
        ),
        (unordered_slices, tf.errors.UnimplementedError, "must be ordered in the batch dimension"),
    ],
)
def test_refused(make: Callable[[], Any], kind: type[Exception], text: str) -> None:
    with tf.Graph().as_default():
        fetched = make()
        with tf.Session() as session, pytest.raises(kind, match=text):
            session.run(fetched)


def test_rebatching_to_nothing_gives_empty_batches() -> None:
    with tf.Graph().as_default():
        source = tf.data.Dataset.from_tensors(np.ones([2, 3], np.float32))
        structure = source.structure.with_shapes([tf.TensorShape([None, 3])])
        sizes = tf.constant([0, 1], tf.int64)
        variant = tf.raw_ops.RebatchDatasetV2(
            input_dataset=source.variant, batch_sizes=sizes, drop_remainder=False, **structure.attrs
        )
        following = type(source)(variant, structure).make_one_shot_iterator().get_next()
        with tf.Session() as session:
            shapes = [session.run(following).shape for _ in range(4)]
    assert shapes == [(0, 3), (1, 3), (0, 3), (1, 3)]
