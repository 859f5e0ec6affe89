"""Datasets read from files: lines, fixed-length records, TFRecords, file names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_scalar
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import Dataset, Element, EndOfSequence, Iteration, Next, scalar_of
from dtfctl.runtime.kernels.dataset.registration import register_dataset
from dtfctl.runtime.kernels.io.csv import CsvFormat, parse_csv_fields, split_csv_records
from dtfctl.runtime.kernels.io.records import (
    fixed_length_records,
    matching_files,
    open_file,
    read_tfrecords,
    text_lines,
)
from dtfctl.runtime.kernels.registry import KernelBuild

Reader = Callable[[str], Iterator[bytes]]


class FileDataset(Dataset):
    """The records of files, one file after the other; after an error in one the next call goes on with the next."""

    types = (dtypes.string,)
    shapes = (TensorShape([]),)

    def __init__(self, paths: list[str], read: Reader) -> None:
        self.paths, self.read = paths, read

    def iterate(self, iteration: Iteration) -> Next:
        waiting = list(self.paths)
        records: Iterator[bytes] | None = None

        def advance() -> Element:
            nonlocal records
            while True:
                if records is None:
                    if not waiting:
                        raise EndOfSequence
                    records = self.read(waiting.pop(0))
                try:
                    for record in records:
                        return (object_scalar(record),)
                except Exception:
                    records = None
                    raise
                records = None

        return advance


def _paths(filenames: Any) -> list[str]:
    if filenames.ndim > 1:
        raise InvalidArgumentError("`filenames` must be a scalar or a vector.")
    return [f.decode() for f in filenames.reshape(-1).tolist()]


def _compression(value: Any, *more: str) -> str:
    name: str = scalar_of(value, "compression_type").decode()
    if name not in ("", "ZLIB", "GZIP", *more):
        raise InvalidArgumentError(f"Unsupported compression_type: {name}.")
    return name


@register_dataset("TextLineDataset")
def text_line_dataset(k: KernelBuild, step: StepContext, filenames: Any, compression: Any, size: Any) -> Dataset:
    kind = _compression(compression)
    return FileDataset(_paths(filenames), lambda path: text_lines(path, kind))


@register_dataset("TFRecordDataset", "TFRecordDatasetV2")
def tfrecord_dataset(
    k: KernelBuild, step: StepContext, filenames: Any, compression: Any, size: Any, offsets: Any = None
) -> Dataset:
    kind = _compression(compression, "SNAPPY")
    starts = dict(zip(_paths(filenames), offsets.reshape(-1).tolist())) if offsets is not None and offsets.size else {}
    return FileDataset(_paths(filenames), lambda path: read_tfrecords(path, kind, starts.get(path, 0)))


@register_dataset("FixedLengthRecordDataset", "FixedLengthRecordDatasetV2")
def fixed_length_record_dataset(
    k: KernelBuild,
    step: StepContext,
    filenames: Any,
    header: Any,
    record: Any,
    footer: Any,
    size: Any,
    compression: Any = None,
) -> Dataset:
    kind = "" if compression is None else _compression(compression)
    names = ("header_bytes", "record_bytes", "footer_bytes")
    head, body, tail = (scalar_of(v, name) for v, name in zip((header, record, footer), names))
    if head < 0:
        raise InvalidArgumentError("`header_bytes` must be >= 0")
    if body <= 0:
        raise InvalidArgumentError("`record_bytes` must be > 0")
    if tail < 0:
        raise InvalidArgumentError("`footer_bytes` must be >= 0")
    return FileDataset(_paths(filenames), lambda path: fixed_length_records(path, head, body, tail, kind))


@register_dataset("MatchingFilesDataset", "ExperimentalMatchingFilesDataset")
def matching_files_dataset(k: KernelBuild, step: StepContext, patterns: Any) -> Dataset:
    found = FileDataset(_paths(patterns), lambda pattern: iter(matching_files([pattern])))
    return found


class CsvDataset(Dataset):
    def __init__(self, paths: list[str], compression: str, header: bool, form: CsvFormat) -> None:
        self.paths, self.compression, self.header, self.form = paths, compression, header, form

    def iterate(self, iteration: Iteration) -> Next:
        waiting = list(self.paths)
        records: Iterator[bytes] | None = None

        def advance() -> Element:
            nonlocal records
            while True:
                if records is None:
                    if not waiting:
                        raise EndOfSequence
                    with open_file(waiting.pop(0), self.compression) as file:
                        records = iter(split_csv_records(file.read(), self.form))
                    if self.header:
                        next(records, None)
                for record in records:
                    return tuple(
                        v if isinstance(v, np.ndarray) else object_scalar(v) if isinstance(v, bytes) else np.asarray(v)
                        for v in parse_csv_fields(record, self.form)
                    )
                records = None

        return advance


@register_dataset("CSVDataset", "CSVDatasetV2", "ExperimentalCSVDataset")
def csv_dataset(
    k: KernelBuild,
    step: StepContext,
    filenames: Any,
    compression: Any,
    size: Any,
    header: Any,
    delimiter: Any,
    quoted: Any,
    na_value: Any,
    select: Any,
    *rest: Any,
) -> Dataset:
    types = k.attr("output_types")
    columns = [int(c) for c in select]
    # CSVDatasetV2 takes what it leaves out after the defaults.
    excluded = [int(c) for c in rest[len(types)]] if len(rest) > len(types) else []
    if columns and excluded:
        raise InvalidArgumentError("Either select_cols or exclude_cols should be empty")
    form = CsvFormat(
        tuple(types),
        list(rest[: len(types)]),
        scalar_of(delimiter, "field_delim"),
        bool(quoted),
        scalar_of(na_value, "na_value"),
        columns,
        frozenset(excluded),
    )
    return CsvDataset(_paths(filenames), _compression(compression), bool(header), form)
