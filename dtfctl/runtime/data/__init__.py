"""Input pipelines: `tf.data` with TF1's names."""

from typing import Any

from dtfctl.runtime.data import experimental
from dtfctl.runtime.data.dataset import Dataset
from dtfctl.runtime.data.files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from dtfctl.runtime.data.iterator import Iterator, make_initializable_iterator, make_one_shot_iterator
from dtfctl.runtime.data.structure import DatasetSpec, Options, Structure

AUTOTUNE = experimental.AUTOTUNE
INFINITE_CARDINALITY = experimental.INFINITE_CARDINALITY
UNKNOWN_CARDINALITY = experimental.UNKNOWN_CARDINALITY

__all__ = [
    "AUTOTUNE",
    "INFINITE_CARDINALITY",
    "UNKNOWN_CARDINALITY",
    "Dataset",
    "DatasetSpec",
    "FixedLengthRecordDataset",
    "Iterator",
    "Options",
    "Structure",
    "TFRecordDataset",
    "TextLineDataset",
    "experimental",
    "get_output_classes",
    "get_output_shapes",
    "get_output_types",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]


def get_output_types(dataset_or_iterator: Dataset | Iterator) -> Any:
    """Return the element types of a dataset or iterator, in the structure of its elements."""
    return dataset_or_iterator.output_types


def get_output_shapes(dataset_or_iterator: Dataset | Iterator) -> Any:
    """Return the element shapes of a dataset or iterator, in the structure of its elements."""
    return dataset_or_iterator.output_shapes


def get_output_classes(dataset_or_iterator: Dataset | Iterator) -> Any:
    """Return the classes of an element's components, in the structure of the elements."""
    return dataset_or_iterator.output_classes
