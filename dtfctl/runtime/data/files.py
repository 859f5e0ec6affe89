"""Datasets of what stands in files."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.data.dataset import Dataset
from dtfctl.runtime.data.structure import Structure
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape

_TEXT = Structure(0, (dtypes.string,), (TensorShape([]),))


def _int64(value: Any) -> Tensor:
    return convert_to_tensor(value, dtypes.int64)


def _file_dataset(op: str, **arguments: Any) -> Dataset:
    return Dataset(apply_op(op, **arguments), _TEXT)


def TextLineDataset(filenames: Any, compression_type: str | None = None, buffer_size: int | None = None) -> Dataset:
    """Make a dataset of the lines of files."""
    return _file_dataset(
        "TextLineDataset",
        filenames=filenames,
        compression_type=compression_type or "",
        buffer_size=_int64(buffer_size or 0),
    )


def TFRecordDataset(
    filenames: Any, compression_type: str | None = None, buffer_size: int | None = None, **options: Any
) -> Dataset:
    """Make a dataset of the records of TFRecord files."""
    return _file_dataset(
        "TFRecordDataset",
        filenames=filenames,
        compression_type=compression_type or "",
        buffer_size=_int64(buffer_size or 0),
    )


def FixedLengthRecordDataset(
    filenames: Any,
    record_bytes: int,
    header_bytes: int | None = None,
    footer_bytes: int | None = None,
    buffer_size: int | None = None,
) -> Dataset:
    """Records of one length."""
    return _file_dataset(
        "FixedLengthRecordDataset",
        filenames=filenames,
        header_bytes=_int64(header_bytes or 0),
        record_bytes=_int64(record_bytes),
        footer_bytes=_int64(footer_bytes or 0),
        buffer_size=_int64(buffer_size or 0),
    )
