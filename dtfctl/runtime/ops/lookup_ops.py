"""Lookup tables with TF1's names (`tf.contrib.lookup`, `tf.lookup`)."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.graph_keys import GraphKeys, add_to_collection, get_collection, name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape


class TextFileIndex:
    """Columns of a vocabulary file that are no columns."""

    WHOLE_LINE = -2
    LINE_NUMBER = -1


class KeyValueTensorInitializer:
    """Fills a table from two vectors."""

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
    ) -> None:
        self._keys = convert_to_tensor(keys, key_dtype)
        self._values = convert_to_tensor(values, value_dtype)
        self._name = name or "key_value_init"

    @property
    def key_dtype(self) -> DType:
        return self._keys.dtype.base_dtype

    @property
    def value_dtype(self) -> DType:
        return self._values.dtype.base_dtype

    def initialize(self, table: Any) -> Operation:
        handle = table.resource_handle
        with name_scope(self._name):
            op: Operation = make_op("LookupTableImportV2", table_handle=handle, keys=self._keys, values=self._values)
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        return op


class TextFileInitializer:
    """Fills a table from the lines of a file."""

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self._filename = convert_to_tensor(filename, dtypes.string)
        self._arguments = {
            "key_index": key_index,
            "value_index": value_index,
            "vocab_size": -1 if vocab_size is None else vocab_size,
            "delimiter": delimiter,
            "offset": value_index_offset,
        }
        self._name = name or "text_file_init"

    def initialize(self, table: Any) -> Operation:
        with name_scope(self._name):
            op: Operation = make_op(
                "InitializeTableFromTextFileV2",
                None,
                table_handle=table.resource_handle,
                filename=self._filename,
                **self._arguments,
            )
        add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        add_to_collection(GraphKeys.ASSET_FILEPATHS, self._filename)
        return op


class _Table:
    """What all tables can do."""

    _LOOKUP = "_Lookup"

    def __init__(self, key_dtype: Any, value_dtype: Any, handle: Tensor, default: Any) -> None:
        self.key_dtype, self.value_dtype = as_dtype(key_dtype), as_dtype(value_dtype)
        self.resource_handle = handle
        self.name = handle.op.name.split("/")[-1]
        self._default = convert_to_tensor(default, self.value_dtype)

    @property
    def default_value(self) -> Tensor:
        return self._default

    def size(self, name: str | None = None) -> Tensor:
        with name_scope(name, f"{self.name}_Size"):
            return apply_op("LookupTableSizeV2", table_handle=self.resource_handle)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Look up the values of `keys`, the default where there is none; a SparseTensor keeps its places."""
        source = keys.values if isinstance(keys, SparseTensor) else convert_to_tensor(keys, self.key_dtype)
        if source.dtype.base_dtype is not self.key_dtype:
            raise TypeError(f"Dtype of argument `keys` must be {self.key_dtype}, received: {keys.dtype}")
        with name_scope(name, f"{self.name}{self._LOOKUP}"):
            values = apply_op(
                "LookupTableFindV2", table_handle=self.resource_handle, keys=source, default_value=self._default
            )
        if isinstance(keys, SparseTensor):
            return SparseTensor(keys.indices, values, keys.dense_shape)
        return values

    def _exported(self, name: str | None, what: str) -> Any:
        with name_scope(name, f"{self.name}{what}"):
            return apply_op_outputs(
                "LookupTableExportV2",
                table_handle=self.resource_handle,
                Tkeys=self.key_dtype,
                Tvalues=self.value_dtype,
            )


class StaticHashTable(_Table):
    """A table its initializer fills once."""

    def __init__(
        self,
        initializer: Any,
        default_value: Any,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
        *,
        shared_name: str | None = None,
    ) -> None:
        require_shared(experimental_is_anonymous)
        handle = apply_op(
            "HashTableV2",
            name or "hash_table",
            shared_name=shared_name or "",
            use_node_name_sharing=True,
            key_dtype=initializer.key_dtype,
            value_dtype=initializer.value_dtype,
        )
        super().__init__(initializer.key_dtype, initializer.value_dtype, handle, default_value)
        self._default.shape.merge_with(TensorShape([]))
        self._init: Operation = initializer.initialize(self)

    @property
    def initializer(self) -> Operation:
        return self._init

    @property
    def init(self) -> Operation:
        return self._init

    def export(self, name: str | None = None) -> Any:
        return self._exported(name, "_Export")


def require_shared(anonymous: bool) -> None:
    """Raise ValueError for a table that were of one step alone."""
    if anonymous:
        raise ValueError("tables here are kept by name from step to step: leave experimental_is_anonymous out")


class HashTable(StaticHashTable):
    """A table its initializer fills once, as `tf.contrib.lookup` makes it."""

    def __init__(
        self, initializer: Any, default_value: Any, shared_name: str | None = None, name: str | None = None
    ) -> None:
        super().__init__(initializer, default_value, name, shared_name=shared_name)


class _WritableTable(_Table):
    _LOOKUP = "_lookup_table_find"

    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        return self._write("LookupTableInsertV2", keys, values, name, "_lookup_table_insert")

    def import_values(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        return self._write("LookupTableImportV2", keys, values, name, "_table_restore")

    def _write(self, op: str, keys: Any, values: Any, name: str | None, what: str) -> Operation:
        with name_scope(name, f"{self.name}{what}"):
            return make_op(
                op,
                table_handle=self.resource_handle,
                keys=convert_to_tensor(keys, self.key_dtype, name="keys"),
                values=convert_to_tensor(values, self.value_dtype, name="values"),
            )

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        source = convert_to_tensor(keys, self.key_dtype)
        with name_scope(name, f"{self.name}_lookup_table_remove"):
            return make_op("LookupTableRemoveV2", table_handle=self.resource_handle, keys=source)

    def export(self, name: str | None = None) -> Any:
        """Read everything in the table: (keys, values)."""
        return self._exported(name, "_lookup_table_export_values")


class MutableHashTable(_WritableTable):
    """A table that steps may write to; values have the shape of the default."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str = "MutableHashTable",
    ) -> None:
        default = convert_to_tensor(default_value, value_dtype)
        arguments = {"key_dtype": key_dtype, "value_dtype": value_dtype, "shared_name": shared_name or ""}
        if default.shape.rank == 0:
            handle = apply_op("MutableHashTableV2", name, use_node_name_sharing=True, **arguments)
        else:
            handle = apply_op(
                "MutableHashTableOfTensorsV2", name, use_node_name_sharing=True, value_shape=default.shape, **arguments
            )
        super().__init__(key_dtype, value_dtype, handle, default)


class DenseHashTable(_WritableTable):
    """A mutable table with two keys set aside."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any,
        initial_num_buckets: int | None = None,
        shared_name: str | None = None,
        name: str = "MutableDenseHashTable",
    ) -> None:
        default = convert_to_tensor(default_value, value_dtype)
        handle = apply_op(
            "MutableDenseHashTableV2",
            name,
            empty_key=convert_to_tensor(empty_key, key_dtype),
            deleted_key=convert_to_tensor(deleted_key, key_dtype),
            value_dtype=value_dtype,
            value_shape=default.shape,
            initial_num_buckets=initial_num_buckets,
            shared_name=shared_name or "",
            use_node_name_sharing=True,
        )
        super().__init__(key_dtype, value_dtype, handle, default)


def tables_initializer(name: str = "init_all_tables") -> Operation:
    """Make an op that initializes every table of the graph."""
    from dtfctl.runtime.ops.grouping import group

    return group(*get_collection(GraphKeys.TABLE_INITIALIZERS), name=name)


initialize_all_tables = tables_initializer
