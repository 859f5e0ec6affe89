"""CSV as TensorFlow reads it (RFC 4180), for DecodeCSV and CSVDataset."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.data_flow.handles import type_text
from dtfctl.runtime.kernels.io.numbers import parse_number
from dtfctl.runtime.kernels.pieces import array_of, each
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel


@dataclass
class CsvFormat:
    """How records are cut and what their fields are.

    Attributes:
        defaults: for each field a tensor of one element, or of none when the field must be given.
        select: the columns wanted, increasing; empty for all.
        exclude: the columns that are left out.
    """

    types: tuple[DType, ...]
    defaults: list[Any]
    delimiter: bytes = b","
    quoted: bool = True
    na_value: bytes = b""
    select: list[int] = field(default_factory=list)
    exclude: frozenset[int] = frozenset()


def split_csv_records(data: bytes, form: CsvFormat) -> Iterator[bytes]:
    """Split a file into its records; a quoted field may hold line ends."""
    start, inside = 0, False
    for at in range(len(data)):
        byte = data[at]
        if byte == 34 and form.quoted:
            inside = not inside
        elif byte == 10 and not inside:
            line = data[start:at].removesuffix(b"\r")
            if line:
                yield line
            start = at + 1
    if data[start:]:
        yield data[start:]


def split_csv_fields(record: bytes, form: CsvFormat) -> list[bytes]:
    """Split one record into its fields.

    Raises:
        InvalidArgumentError: quotes stand where they must not.
    """
    if not form.quoted or b'"' not in record:
        fields = record.split(form.delimiter)
        if b"\n" in record or b"\r" in record:
            raise InvalidArgumentError("Unquoted fields cannot have quotes/CRLFs inside")
        return fields
    out, at = [], 0
    while True:
        if record[at : at + 1] != b'"':
            end = record.find(form.delimiter, at)
            end = len(record) if end < 0 else end
            text = record[at:end]
            if any(c in text for c in (b'"', b"\n", b"\r")):
                raise InvalidArgumentError(
                    "Unquoted fields cannot have quotes/CRLFs inside",
                )
            out.append(text)
            at = end
        else:
            text, at = _quoted(record, at + 1, form)
            out.append(text)
        if at >= len(record):
            return out
        at += 1
        if at == len(record):
            out.append(b"")
            return out


def _quoted(record: bytes, at: int, form: CsvFormat) -> tuple[bytes, int]:
    out = bytearray()
    while True:
        end = record.find(b'"', at)
        if end < 0:
            raise InvalidArgumentError("Quoted field has to end with quote followed by delim or end")
        out += record[at:end]
        if record[end + 1 : end + 2] == b'"':
            out += b'"'
            at = end + 2
            continue
        if end + 1 < len(record) and record[end + 1 : end + 2] != form.delimiter:
            raise InvalidArgumentError("Quote inside a string has to be escaped by another quote")
        return bytes(out), end + 1


def parse_csv_fields(record: bytes, form: CsvFormat, row: int | None = None) -> list[Any]:
    """Parse one record into values of the fields' types.

    Raises:
        InvalidArgumentError: a number of fields or a field is wrong, or one that must be given is missing.
    """
    fields = split_csv_fields(record, form)
    where = "" if row is None else f" in record {row}"
    if form.select:
        if len(fields) <= form.select[-1]:
            raise InvalidArgumentError(
                f"Expect {len(form.types)} fields but have {sum(c < len(fields) for c in form.select)}{where}"
            )
        fields = [fields[c] for c in form.select]
    if form.exclude:
        fields = [text for c, text in enumerate(fields) if c not in form.exclude]
    if len(fields) != len(form.types):
        raise InvalidArgumentError(f"Expect {len(form.types)} fields but have {len(fields)}{where}")
    out = []
    for i, (text, dtype, default) in enumerate(zip(fields, form.types, form.defaults)):
        if not text or text == form.na_value:
            if default.size != 1:
                raise InvalidArgumentError(f"Field {i} is required but missing{where}!")
            out.append(default.reshape(-1)[0])
            continue
        if dtype is dtypes.string:
            out.append(text)
            continue
        value = parse_number(text, dtype)
        if value is None:
            raise InvalidArgumentError(
                f"Field {i}{where} is not a valid {type_text(dtype)}: {text.decode(errors='replace')}"
            )
        out.append(dtype.np.type(value))
    return out


@register_kernel("DecodeCSV", pieces=True)
def decode_csv(k: KernelBuild) -> Kernel:
    types, select = tuple(k.attr("OUT_TYPE")), list(k.attr("select_cols"))
    delimiter, quoted, na_value = k.attr("field_delim"), k.attr("use_quote_delim"), k.attr("na_value")
    if len(delimiter) != 1:
        raise InvalidArgumentError("field_delim should be only 1 char", k.node.name)
    if select and len(select) != len(types):
        raise InvalidArgumentError("select_cols should match output size", k.node.name)
    if any(b <= a for a, b in itertools.pairwise(select)):
        raise InvalidArgumentError("select_cols should be strictly increasing indices", k.node.name)
    if select and select[0] < 0:
        raise InvalidArgumentError("select_cols should be non-negative indices", k.node.name)

    def run(records: Any, *defaults: Any) -> list[Any]:
        for i, default in enumerate(defaults):
            if default.ndim > 1:
                raise InvalidArgumentError("Each record default should be at most rank 1")
            if default.size > 1:
                raise InvalidArgumentError(f"There should only be 1 default per field but field {i} has {default.size}")
        form = CsvFormat(types, list(defaults), delimiter, quoted, na_value, select)
        rows = [parse_csv_fields(r, form, i) for i, r in enumerate(each(records))]
        out = []
        for i, dtype in enumerate(types):
            column = [row[i] for row in each(rows)]
            if dtype is dtypes.string:
                out.append(array_of(column, object, records.shape))
            else:
                out.append(array_of(column, dtype.np, records.shape))
        return out

    return run
