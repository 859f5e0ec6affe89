"""Input pipelines: `tf.data` with TF1's names."""

from dtfctl.runtime.data.dataset import Dataset, FixedLengthRecordDataset, TextLineDataset, TFRecordDataset
from dtfctl.runtime.data.iterator import Iterator, make_initializable_iterator, make_one_shot_iterator
from dtfctl.runtime.data.structure import Structure

__all__ = [
    "Dataset",
    "FixedLengthRecordDataset",
    "Iterator",
    "Structure",
    "TFRecordDataset",
    "TextLineDataset",
    "make_initializable_iterator",
    "make_one_shot_iterator",
]
