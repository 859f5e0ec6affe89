"""`tf.contrib.lookup`: tables from ids to words and back; those that steps write to are kept in checkpoints."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.api.lookup import (
    HashTable,
    IdTableWithHashBuckets,
    KeyValueTensorInitializer,
    StaticHashTable,
    TextFileIndex,
    TextFileInitializer,
    index_table_from_file,
    index_table_from_tensor,
)
from dtfctl.runtime.ops.vocabulary_tables import index_to_string_table_from_file, index_to_string_table_from_tensor
from dtfctl.runtime.train.saved_tables import DenseHashTable, MutableHashTable as _MutableHashTable

__all__ = [
    "HashTable",
    "IdTableWithHashBuckets",
    "KeyValueTensorInitializer",
    "MutableDenseHashTable",
    "MutableHashTable",
    "StaticHashTable",
    "TextFileIndex",
    "TextFileInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
]


class MutableHashTable(_MutableHashTable):
    """A table that steps write to; those of one `shared_name` are one."""

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
    ) -> None:
        super().__init__(key_dtype, value_dtype, default_value, name, checkpoint, shared_name=shared_name)


class MutableDenseHashTable(DenseHashTable):
    """A table that steps write to, with keys set aside; those of one `shared_name` are one."""

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
        checkpoint: bool = True,
    ) -> None:
        given = (key_dtype, value_dtype, default_value, empty_key, deleted_key, initial_num_buckets)
        super().__init__(*given, name, checkpoint, shared_name=shared_name)
