"""Datasets of what stands in files."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.data.dataset import Dataset
from dtfctl.runtime.data.op_arguments import int64
from dtfctl.runtime.data.structure import AnyDataset, Structure
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.tensor_shape import TensorShape

_TEXT = Structure(0, (dtypes.string,), (TensorShape([]),))


def _file_dataset(op: str, filenames: Any, parallel: Any, name: str | None, **arguments: Any) -> Dataset:
    """Read files one after the other, or an element in turn from `parallel` of them at a time."""

    def read(paths: Any, called: str | None = None) -> Dataset:
        return Dataset(apply_op(op, called, filenames=paths, **arguments), _TEXT)

    if parallel is None and not isinstance(filenames, AnyDataset):
        return read(filenames, name)
    paths: Any = filenames
    if not isinstance(paths, AnyDataset):
        names = convert_to_tensor(filenames, dtypes.string)
        paths = Dataset.from_tensor_slices(apply_op("Reshape", tensor=names, shape=[-1]))
    if parallel is None:
        return paths.flat_map(read, name=name)  # type: ignore[no-any-return]
    return paths.interleave(read, parallel, 1, num_parallel_calls=parallel, name=name)  # type: ignore[no-any-return]


def TextLineDataset(
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: Any = None,
    name: str | None = None,
) -> Dataset:
    """Make a dataset of the lines of files; with `num_parallel_reads` of a line in turn from that many files."""
    kind, size = compression_type or "", int64(buffer_size or 0)
    return _file_dataset(
        "TextLineDataset", filenames, num_parallel_reads, name, compression_type=kind, buffer_size=size
    )


def TFRecordDataset(
    filenames: Any,
    compression_type: str | None = None,
    buffer_size: int | None = None,
    num_parallel_reads: Any = None,
    name: str | None = None,
) -> Dataset:
    """Make a dataset of the records of TFRecord files; with `num_parallel_reads` in turn from that many files."""
    kind, size = compression_type or "", int64(buffer_size or 0)
    return _file_dataset(
        "TFRecordDataset", filenames, num_parallel_reads, name, compression_type=kind, buffer_size=size
    )


def FixedLengthRecordDataset(
    filenames: Any,
    record_bytes: int,
    header_bytes: int | None = None,
    footer_bytes: int | None = None,
    buffer_size: int | None = None,
    compression_type: str | None = None,
    num_parallel_reads: Any = None,
    name: str | None = None,
) -> Dataset:
    """Make a dataset of the records of one length of files, as `TFRecordDataset` does."""
    sizes = {"header_bytes": header_bytes, "record_bytes": record_bytes, "footer_bytes": footer_bytes}
    given: dict[str, Any] = {key: int64(size or 0) for key, size in sizes.items()}
    given["buffer_size"] = int64(buffer_size or 0)
    op = "FixedLengthRecordDataset"
    if compression_type is not None:
        op, given["compression_type"] = "FixedLengthRecordDatasetV2", compression_type
    return _file_dataset(op, filenames, num_parallel_reads, name, **given)
