"""Datasets of parsed examples and of the columns of CSV files, as batches."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dtfctl.runtime.data.dataset import Dataset
from dtfctl.runtime.data.files import CsvDataset, TFRecordDataset
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.op_builder import make_op
from dtfctl.runtime.framework.operation import Operation
from dtfctl.runtime.ops.array_ops import stack
from dtfctl.runtime.ops.parsing_ops import parse_example
from dtfctl.runtime.platform import gfile

_AUTOTUNE = -1


def parse_example_dataset(
    features: Mapping[str, Any], num_parallel_calls: Any = 1, deterministic: bool | None = None
) -> Callable[[Any], Any]:
    """Parse batches of serialized Examples into dicts: for `Dataset.apply`.

    Raises:
        ValueError: there are no features.
    """
    if not features:
        raise ValueError("Argument `features` is required, but was None.")
    return lambda dataset: dataset.map(lambda batch: parse_example(batch, features), num_parallel_calls)


def _files(file_pattern: Any, shuffle: bool, seed: int | None) -> Any:
    return Dataset.list_files(file_pattern, shuffle=shuffle, seed=seed)


def _shuffled(dataset: Any, shuffle: bool, size: int, epochs: int | None, seed: int | None) -> Any:
    return (dataset.shuffle(size, seed) if shuffle else dataset).repeat(epochs)


def make_batched_features_dataset(
    file_pattern: Any,
    batch_size: int,
    features: Mapping[str, Any],
    reader: Callable[..., Any] | None = None,
    label_key: str | None = None,
    reader_args: Sequence[Any] | None = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    reader_num_threads: int | None = None,
    parser_num_threads: int | None = None,
    sloppy_ordering: bool = False,
    drop_final_batch: bool = False,
) -> Any:
    """Make a dataset of dicts of features, parsed from batches of the Examples in files.

    Args:
        file_pattern: files, or patterns of them.
        reader: makes a dataset of serialized Examples of a file: TFRecordDataset where it is None.
        label_key: the feature that each element's second part is; without it elements are dicts alone.
        num_epochs: how often all is read; without an end where it is None.
        reader_num_threads: how many files are read in turns.

    Raises:
        ValueError: `label_key` is none of the features.
    """
    if label_key is not None and label_key not in features:
        raise ValueError(f"The `label_key` provided ({label_key!r}) must be one of the `features` keys.")
    make, more = reader or TFRecordDataset, list(reader_args or ())
    dataset = _files(file_pattern, shuffle, shuffle_seed).interleave(
        lambda name: make(name, *more), reader_num_threads or 1, 1
    )
    # What a reader of keys and values gives.
    if isinstance(dataset.output_types, tuple):
        dataset = dataset.map(lambda _, value: value)
    dataset = _shuffled(dataset, shuffle, shuffle_buffer_size, num_epochs, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=drop_final_batch or num_epochs is None)
    dataset = dataset.apply(parse_example_dataset(features, parser_num_threads or 2))
    if label_key is not None:

        def parted(parsed: dict[str, Any]) -> Any:
            label = parsed.pop(label_key)
            return parsed, label

        dataset = dataset.map(parted)
    return dataset.prefetch(_AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


def _rows(path: str, compression: str | None, encoding: str, **how: Any) -> Iterator[list[str]]:
    """Read the rows of a file.

    Raises:
        ValueError: it is compressed otherwise than files of datasets may be.
    """
    if compression not in (None, "", "GZIP", "ZLIB"):
        raise ValueError(f"compression_type must be GZIP, ZLIB or none, not {compression!r}")
    if compression == "ZLIB":
        with gfile.GFile(path, "rb") as file:
            text: Any = io.StringIO(zlib.decompress(file.read()).decode(encoding), newline="")
    else:
        opened = gzip.open if compression == "GZIP" else open
        text = opened(path, "rt", encoding=encoding, newline="")
    with text:
        yield from csv.reader(text, **how)


def _kind(text: str, na_value: str, so_far: Any) -> Any:
    """Return the narrowest type of what is known of a column and one more field."""
    if text in ("", na_value):
        return so_far
    for kind, convert in ((dtypes.int32, int), (dtypes.int64, int), (dtypes.float32, float), (dtypes.float64, float)):
        if so_far in _KINDS[_KINDS.index(kind) + 1 :]:
            continue
        try:
            value = convert(text)
        except ValueError:
            continue
        limit = {dtypes.int32: 2**31 - 1, dtypes.int64: 2**63 - 1, dtypes.float32: 3.4028234e38}.get(kind)
        if limit is None or -limit <= value <= limit:
            return kind
    return dtypes.string


_KINDS = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string]


def make_csv_dataset(
    file_pattern: Any,
    batch_size: int,
    column_names: Sequence[str] | None = None,
    column_defaults: Sequence[Any] | None = None,
    label_name: str | None = None,
    select_columns: Sequence[Any] | None = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: int | None = None,
    shuffle: bool = True,
    shuffle_buffer_size: int = 10000,
    shuffle_seed: int | None = None,
    prefetch_buffer_size: int | None = None,
    num_parallel_reads: int | None = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: str | None = None,
    ignore_errors: bool = False,
    encoding: str = "utf-8",
) -> Any:
    """Make a dataset of dicts of columns, in batches, of CSV files.

    Args:
        file_pattern: files, or patterns of them.
        column_names: of all columns; those of the first line where it is None and there is a header.
        column_defaults: types, where a field must be there, or what an empty one becomes, of the columns that are
            wanted; where it is None, types are found in the first rows, and an empty field is 0 or "".
        label_name: the column that each element's second part is; without it elements are dicts alone.
        select_columns: names or numbers of the columns wanted; all where it is None.
        num_epochs: how often all is read; without an end where it is None.
        num_rows_for_inference: how many rows of the files are looked at; all where it is None.
        encoding: of the names of columns; fields are bytes.

    Raises:
        ValueError: there is no such file, or a column is named that is not there, or twice.
    """
    paths = sorted(gfile.glob(file_pattern))
    if not paths:
        raise ValueError(f"No files match `file_pattern` {file_pattern}.")
    how: dict[str, Any] = {
        "delimiter": field_delim,
        "quoting": csv.QUOTE_MINIMAL if use_quote_delim else csv.QUOTE_NONE,
    }
    if column_names is None:
        if not header:
            raise ValueError("Expected `column_names` or a header")
        column_names = next(_rows(paths[0], compression_type, encoding, **how))
    names = list(column_names)
    if len(set(names)) != len(names):
        raise ValueError("Cannot have duplicate column names.")
    chosen = list(range(len(names)))
    if select_columns is not None:
        chosen = sorted(names.index(c) if isinstance(c, str) else int(c) for c in select_columns)
    if column_defaults is None:
        kinds: list[Any] = [None] * len(names)
        seen = 0
        for path in paths:
            for at, row in enumerate(_rows(path, compression_type, encoding, **how)):
                if (header and at == 0) or (num_rows_for_inference is not None and seen >= num_rows_for_inference):
                    continue
                kinds = [_kind(text, na_value, kind) for text, kind in zip(row, kinds, strict=True)]
                seen += 1
        found = [kinds[i] or dtypes.string for i in chosen]
        defaults: list[Any] = [convert_to_tensor([b"" if k is dtypes.string else 0], k) for k in found]
    else:
        defaults = [d if isinstance(d, dtypes.DType) else convert_to_tensor(d) for d in column_defaults]
        if len(defaults) == len(names) and select_columns is not None:
            defaults = [defaults[i] for i in chosen]
    wanted = [names[i] for i in chosen]
    if label_name is not None and label_name not in wanted:
        raise ValueError("`label_name` provided must be one of the columns.")
    given: Any = None if chosen == list(range(len(names))) else chosen

    def read(name: Any) -> Any:
        dataset = CsvDataset(
            name,
            defaults,
            compression_type,
            header=header,
            field_delim=field_delim,
            use_quote_delim=use_quote_delim,
            na_value=na_value,
            select_cols=given,
        )
        return dataset.ignore_errors() if ignore_errors else dataset

    def named(*columns: Any) -> Any:
        features = dict(zip(wanted, columns, strict=True))
        if label_name is None:
            return features
        label = features.pop(label_name)
        return features, label

    dataset = _files(file_pattern, shuffle, shuffle_seed).interleave(read, num_parallel_reads or 1, 1)
    dataset = _shuffled(dataset, shuffle, shuffle_buffer_size, num_epochs, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None).map(named)
    return dataset.prefetch(_AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)


class TFRecordWriter:
    """Writes the elements of a dataset of strings to a TFRecord file."""

    def __init__(self, filename: Any, compression_type: str | None = None) -> None:
        self._filename = convert_to_tensor(filename, dtypes.string)
        self._compression = convert_to_tensor(compression_type or "", dtypes.string)

    def write(self, dataset: Any) -> Operation:
        """Make an op that writes all elements.

        Raises:
            TypeError: they are no scalar strings.
        """
        if dataset.output_types != dtypes.string or dataset.output_shapes.rank not in (None, 0):
            raise TypeError(
                f"Expected a dataset of scalar strings, got {dataset.output_types} of shape {dataset.output_shapes}"
            )
        return make_op(
            "DatasetToTFRecord",
            input_dataset=dataset.variant,
            filename=self._filename,
            compression_type=self._compression,
        )


def get_structure(dataset_or_iterator: Any) -> Any:
    """Describe an element of a dataset or iterator: a spec for each component."""
    return dataset_or_iterator.element_spec


def from_list(elements: Sequence[Any], name: str | None = None) -> Any:
    """Make a dataset of the elements of a list, which have one structure.

    Raises:
        ValueError: there are none.
    """
    from dtfctl.runtime.framework import nest

    if not elements:
        raise ValueError("Invalid `elements`. `elements` should not be empty.")
    parts = [stack(same) for same in zip(*(nest.flatten(e) for e in elements), strict=True)]
    return Dataset.from_tensor_slices(nest.pack_sequence_as(elements[0], parts))
