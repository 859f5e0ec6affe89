"""Kernels of the lookup table ops, first versions (string handles) and second (resource handles)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.runtime.checkpoint.atomic import os_error
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.kernels.arguments import text_of
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.data_flow.handles import ResourceKernel, handle_scalar, lookup, shape_text, type_text
from dtfctl.runtime.kernels.data_flow.table import DenseHashTable, HashTable, LookupTable, MutableHashTable
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

_ANONYMOUS = itertools.count()
_LINE_NUMBER, _WHOLE_LINE = -1, -2


def _maker(k: KernelBuild, make: Callable[[str], LookupTable]) -> Kernel:
    key, value = k.dtype("key_dtype"), k.dtype("value_dtype")
    if k.node.op.startswith("Anonymous"):

        def anonymous(step: StepContext) -> Any:
            name = f"_anonymous_table_{next(_ANONYMOUS)}"
            step.resources.create(k.container, name, make(name))
            return handle_scalar(k.device.name, k.container, name, LookupTable.type_name)

        return anonymous

    def verify(table: LookupTable) -> None:
        if (table.key_dtype, table.value_dtype) != (key, value):
            raise InvalidArgumentError(
                f"Conflicting key/value dtypes {type_text(key)}->{type_text(value)} with "
                f"{type_text(table.key_dtype)}-{type_text(table.value_dtype)} for table {table.name}"
            )

    return ResourceKernel(k, LookupTable, make, verify, by_node_name=bool(k.attr("use_node_name_sharing")))


_TABLES = ("HashTable", "HashTableV2", "AnonymousHashTable")
_NUMBERS = (dtypes.int32, dtypes.float32, dtypes.float64)


# The pairs TensorFlow has: a program that runs here runs there.
@register_kernel(_TABLES, step=True, key_dtype=(dtypes.int32,), value_dtype=(*_NUMBERS, dtypes.string))
@register_kernel(_TABLES, step=True, key_dtype=(dtypes.int64,), value_dtype=(*_NUMBERS, dtypes.int64, dtypes.string))
@register_kernel(
    _TABLES, step=True, key_dtype=(dtypes.string,), value_dtype=(*_NUMBERS, dtypes.int64, dtypes.string, dtypes.bool_)
)
def hash_table(k: KernelBuild) -> Kernel:
    key, value = k.dtype("key_dtype"), k.dtype("value_dtype")
    return _maker(k, lambda name: HashTable(name, key, value))


@register_kernel(
    (
        "MutableHashTable",
        "MutableHashTableV2",
        "AnonymousMutableHashTable",
        "MutableHashTableOfTensors",
        "MutableHashTableOfTensorsV2",
        "AnonymousMutableHashTableOfTensors",
    ),
    step=True,
)
def mutable_hash_table(k: KernelBuild) -> Kernel:
    key, value, shape = k.dtype("key_dtype"), k.dtype("value_dtype"), k.attr("value_shape")
    known = shape.known() if shape is not None else ()
    if shape is not None and len(known) != 1:
        raise InvalidArgumentError(f"Default value must be a vector, got shape {shape_text(shape)}", k.node.name)
    return _maker(k, lambda name: MutableHashTable(name, key, value, known))


@register_kernel(("MutableDenseHashTable", "MutableDenseHashTableV2", "AnonymousMutableDenseHashTable"), step=True)
def mutable_dense_hash_table(k: KernelBuild) -> Kernel:
    key, value, shape = k.dtype("key_dtype"), k.dtype("value_dtype"), k.attr("value_shape").known()
    load, buckets = k.attr("max_load_factor"), k.attr("initial_num_buckets")
    given: list[Any] = []

    def make(name: str) -> LookupTable:
        empty, deleted = given
        if not 0 < load < 1:
            raise InvalidArgumentError(f"max_load_factor must be between 0 and 1, got: {load}")
        if len(shape) > 1:
            raise InvalidArgumentError(f"Empty value must be a scalar or a vector, got shape {shape_text(shape)}")
        if empty.ndim > 1:
            raise InvalidArgumentError(
                f"Empty key must be a scalar or a vector, got shape {shape_text(empty.shape)}",
            )
        if deleted is not None and deleted.shape != empty.shape:
            raise InvalidArgumentError(
                "Empty and deleted keys must have same shape, got shapes: "
                f"{shape_text(empty.shape)} and {shape_text(deleted.shape)}"
            )
        if buckets < 4 or buckets & (buckets - 1):
            raise InvalidArgumentError(f"Number of buckets must be at least 4 and a power of 2, got: {buckets}")
        return DenseHashTable(name, key, value, shape, empty, deleted, buckets, load)

    kernel = _maker(k, make)

    def run(step: StepContext, empty: Any, deleted: Any = None) -> Any:
        given[:] = [np.asarray(empty), None if deleted is None else np.asarray(deleted)]
        return kernel(step)

    return run


def _input_dtypes(k: KernelBuild) -> tuple[DType, DType]:
    return k.node.input_types[1].base_dtype, k.node.input_types[2].base_dtype


@register_kernel(("LookupTableFind", "LookupTableFindV2"), pieces=True, step=True)
def lookup_table_find(k: KernelBuild) -> Kernel:
    types = _input_dtypes(k)

    def run(step: StepContext, handle: Any, keys: Any, default: Any) -> Any:
        table = lookup(step, handle, LookupTable)
        table.check_types(*types)
        return table.find(np.asarray(keys), np.asarray(default))

    return run


@register_kernel(("LookupTableInsert", "LookupTableInsertV2"), pieces=True, step=True)
def lookup_table_insert(k: KernelBuild) -> Kernel:
    types = _input_dtypes(k)

    def run(step: StepContext, handle: Any, keys: Any, values: Any) -> None:
        table = lookup(step, handle, LookupTable)
        table.check_types(*types)
        table.insert(np.asarray(keys), np.asarray(values))

    return run


@register_kernel(("LookupTableImport", "LookupTableImportV2"), pieces=True, step=True)
def lookup_table_import(k: KernelBuild) -> Kernel:
    types = _input_dtypes(k)

    def run(step: StepContext, handle: Any, keys: Any, values: Any) -> None:
        table = lookup(step, handle, LookupTable)
        table.check_types(*types)
        if isinstance(table, HashTable) and not keys.size:
            raise InvalidArgumentError("keys and values cannot be empty tensors.")
        table.import_values(np.asarray(keys), np.asarray(values))

    return run


@register_kernel("LookupTableRemoveV2", pieces=True, step=True)
def lookup_table_remove(k: KernelBuild) -> Kernel:
    def run(step: StepContext, handle: Any, keys: Any) -> None:
        table = lookup(step, handle, LookupTable)
        table.check_types(k.node.input_types[1].base_dtype, table.value_dtype)
        table.remove(np.asarray(keys))

    return run


@register_kernel(("LookupTableSize", "LookupTableSizeV2"), step=True)
def lookup_table_size(k: KernelBuild) -> Kernel:
    return lambda step, handle: np.int64(lookup(step, handle, LookupTable).size())


@register_kernel(("LookupTableExport", "LookupTableExportV2"), pieces=True, step=True)
def lookup_table_export(k: KernelBuild) -> Kernel:
    types = k.node.output_types

    def run(step: StepContext, handle: Any) -> Any:
        table = lookup(step, handle, LookupTable)
        table.check_types(types[0].base_dtype, types[1].base_dtype)
        return table.export()

    return run


def _initializable(step: StepContext, handle: Any) -> HashTable:
    table = lookup(step, handle, LookupTable)
    if not isinstance(table, HashTable):
        raise InvalidArgumentError(f"Table {table.name} is not initializable")
    return table


@register_kernel(("InitializeTable", "InitializeTableV2"), pieces=True, step=True)
def initialize_table(k: KernelBuild) -> Kernel:
    types = _input_dtypes(k)

    def run(step: StepContext, handle: Any, keys: Any, values: Any) -> None:
        table = _initializable(step, handle)
        table.check_types(*types)
        if keys.ndim != 1:
            raise InvalidArgumentError(f"Keys must be a vector, but received shape{shape_text(keys.shape)}")
        if values.ndim != 1:
            raise InvalidArgumentError(f"Values must be a vector, but received shape{shape_text(values.shape)}")
        if keys.size != values.size:
            raise InvalidArgumentError(f"Keys and values must have the same size {keys.size} vs {values.size}")
        if not keys.size:
            raise InvalidArgumentError("keys and values cannot be empty tensors.")
        table.import_values(keys, values)

    return run


@register_kernel(("InitializeTableFromTextFile", "InitializeTableFromTextFileV2"), step=True, blocking=True)
def initialize_table_from_text_file(k: KernelBuild) -> Kernel:
    key_index, value_index = k.attr("key_index"), k.attr("value_index")
    size, delimiter, offset = k.attr("vocab_size"), k.attr("delimiter"), k.attr("offset")
    if len(delimiter) != 1:
        raise InvalidArgumentError("delimiter should be only 1 char", k.node.name)

    def run(step: StepContext, handle: Any, filename: Any) -> None:
        table = _initializable(step, handle)
        if filename.shape != ():
            raise InvalidArgumentError(
                f"filename should be a single string, but got {shape_text(filename.shape)}",
            )
        path = text_of(filename)
        if not path:
            raise InvalidArgumentError("filename cannot be empty.")
        _check_column("Key", "key", key_index, table.key_dtype)
        _check_column("Value", "value", value_index, table.value_dtype)
        rows = _rows(path, size, delimiter, max(key_index, value_index), offset)
        table.initialize(
            (
                _cell(line, cells, number, key_index, table.key_dtype, offset),
                _cell(line, cells, number, value_index, table.value_dtype, offset),
            )
            for number, line, cells in rows
        )

    return run


def _check_column(title: str, word: str, index: int, dtype: DType) -> None:
    if index == _LINE_NUMBER and dtype is not dtypes.int64:
        raise InvalidArgumentError(
            f"{title} index for line number requires table {word} dtype of int64, got {type_text(dtype)}"
        )
    if index == _WHOLE_LINE and not dtype.is_integer and dtype is not dtypes.string:
        what = "string or integer table key" if word == "key" else "table value dtype of integer or string"
        raise InvalidArgumentError(f"{title} index for whole line requires {what}, got {type_text(dtype)}")


def _rows(
    path: str, size: int, delimiter: bytes, last_column: int, offset: int
) -> Iterator[tuple[int, bytes, list[bytes]]]:
    """(line number, line, columns) of a vocabulary file, checked as it is read."""
    number = 0
    try:
        with Path(local_path(path)).open("rb") as file:
            for raw in file:
                line = raw.rstrip(b"\n").removesuffix(b"\r")
                if size != -1 and number >= size:
                    return
                if not line:
                    raise InvalidArgumentError(
                        f"Invalid content in {path}: empty line found at position {file.tell()}."
                    )
                cells = line.split(delimiter) if last_column >= 0 else []
                if last_column >= 0 and len(cells) <= last_column:
                    raise InvalidArgumentError(
                        f"Invalid number of columns in {path} line {number} ({line.decode(errors='replace')}) : "
                        f"expected at least {last_column + 1} got {len(cells)}"
                    )
                yield number, line, cells
                number += 1
    except OSError as e:
        raise os_error(e, path) from e
    if size not in (-1, number):
        raise InvalidArgumentError(f"Invalid vocab_size in {path}: expected {size} but got {number}")


def _cell(line: bytes, cells: list[bytes], number: int, index: int, dtype: DType, offset: int) -> Any:
    if index == _LINE_NUMBER:
        return number + offset
    text = line if index == _WHOLE_LINE else cells[index]
    if dtype is dtypes.string:
        return text
    try:
        value = float(text) if dtype.is_floating else int(text)
    except ValueError:
        raise InvalidArgumentError(
            f"Field {text.decode(errors='replace')} in line {number} is not a valid {type_text(dtype)}."
        ) from None
    return float(dtype.np.type(value)) if dtype.is_floating else value + (offset if dtype is dtypes.int32 else 0)
