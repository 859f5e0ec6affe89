"""`tensorflow.python.data.ops.dataset_ops`: what is not a name of `tf.data`."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import data

DatasetV1 = DatasetV2 = DatasetV1Adapter = data.Dataset
INFINITE, UNKNOWN = data.INFINITE_CARDINALITY, data.UNKNOWN_CARDINALITY


def get_legacy_output_types(dataset_or_iterator: Any) -> Any:
    """Return the element types of a dataset or iterator, in the structure of its elements."""
    return dataset_or_iterator.output_types


def get_legacy_output_shapes(dataset_or_iterator: Any) -> Any:
    """Return the element shapes of a dataset or iterator, in the structure of its elements."""
    return dataset_or_iterator.output_shapes


def __getattr__(name: str) -> Any:
    return getattr(data, name)
