"""`tf.contrib.data`: what is `tf.data` and `tf.data.experimental` now."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import data as _data
from dtfctl.runtime.data import Dataset, FixedLengthRecordDataset, Iterator, TextLineDataset, TFRecordDataset
from dtfctl.runtime.data.experimental import CsvDataset, map_and_batch, parallel_interleave, shuffle_and_repeat, unbatch

__all__ = [
    "CsvDataset",
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "TFRecordDataset",
    "TextLineDataset",
    "batch_and_drop_remainder",
    "map_and_batch",
    "parallel_interleave",
    "shuffle_and_repeat",
    "unbatch",
]


def batch_and_drop_remainder(batch_size: Any) -> Any:
    """Make what turns a dataset into whole batches: `dataset.apply(batch_and_drop_remainder(32))`."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def __getattr__(name: str) -> Any:
    return getattr(_data.experimental, name)
