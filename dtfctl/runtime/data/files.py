"""Datasets of what stands in files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.data.dataset import Dataset
from dtfctl.runtime.data.op_arguments import int64
from dtfctl.runtime.data.structure import AnyDataset, Structure
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
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


def CsvDataset(
    filenames: Any,
    record_defaults: Sequence[Any],
    compression_type: str | None = None,
    buffer_size: int | None = None,
    header: bool = False,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    exclude_cols: Sequence[int] | None = None,
) -> Dataset:
    """Make a dataset of the records of CSV files, each a tuple of scalars.

    Args:
        record_defaults: for each column wanted a type, where a field must be there, or what an empty one becomes.
        header: whether the first line of each file is left out.
        na_value: another text that stands for an empty field.
        select_cols: the columns wanted, in order; all where it is None.
        exclude_cols: the columns that are left out, instead.
    """
    defaults = [constant([], d) if isinstance(d, dtypes.DType) else convert_to_tensor(d) for d in record_defaults]
    types = tuple(d.dtype.base_dtype for d in defaults)
    made = apply_op(
        "CSVDatasetV2",
        filenames=convert_to_tensor(filenames, dtypes.string),
        compression_type=compression_type or "",
        buffer_size=int64(buffer_size or 4 << 20),
        header=header,
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=convert_to_tensor(list(select_cols or ()), dtypes.int64),
        record_defaults=defaults,
        exclude_cols=convert_to_tensor(list(exclude_cols or ()), dtypes.int64),
        output_shapes=[TensorShape([])] * len(types),
    )
    return Dataset(made, Structure(tuple(range(len(types))), types, (TensorShape([]),) * len(types)))
