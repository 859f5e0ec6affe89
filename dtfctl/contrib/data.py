"""`tf.contrib.data`: what is `tf.data` and `tf.data.experimental` now."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import data as _data
from dtfctl.runtime.data import Dataset, FixedLengthRecordDataset, Iterator, TextLineDataset, TFRecordDataset
from dtfctl.runtime.data.experimental import (
    CsvDataset,
    make_batched_features_dataset,
    make_csv_dataset,
    map_and_batch,
    parallel_interleave,
    shuffle_and_repeat,
    unbatch,
)

__all__ = [
    "CsvDataset",
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "TFRecordDataset",
    "TextLineDataset",
    "batch_and_drop_remainder",
    "make_batched_features_dataset",
    "make_csv_dataset",
    "map_and_batch",
    "padded_batch_and_drop_remainder",
    "parallel_interleave",
    "read_batch_features",
    "shuffle_and_repeat",
    "sloppy_interleave",
    "unbatch",
]


def batch_and_drop_remainder(batch_size: Any) -> Any:
    """Make what turns a dataset into whole batches: `dataset.apply(batch_and_drop_remainder(32))`."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size: Any, padded_shapes: Any, padding_values: Any = None) -> Any:
    """Make what turns a dataset into whole padded batches: for `Dataset.apply`."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)


def sloppy_interleave(map_func: Any, cycle_length: Any, block_length: Any = 1) -> Any:
    """Take the elements of several datasets by turns: for `Dataset.apply`."""
    return parallel_interleave(map_func, cycle_length, block_length, sloppy=True)


def read_batch_features(file_pattern: Any, batch_size: int, features: Any, *args: Any, **options: Any) -> Any:
    """Return the next batch of features of the Examples in files."""
    dataset = make_batched_features_dataset(file_pattern, batch_size, features, *args, **options)
    return _data.make_one_shot_iterator(dataset).get_next()


def __getattr__(name: str) -> Any:
    return getattr(_data.experimental, name)
