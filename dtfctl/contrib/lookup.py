"""`tf.contrib.lookup`: tables from ids to words and back."""

from __future__ import annotations

from dtfctl.runtime.api.lookup import (
    HashTable,
    KeyValueTensorInitializer,
    StaticHashTable,
    TextFileIndex,
    TextFileInitializer,
    index_table_from_file,
    index_table_from_tensor,
)
from dtfctl.runtime.ops.lookup_ops import MutableHashTable
from dtfctl.runtime.ops.vocabulary_tables import index_to_string_table_from_file, index_to_string_table_from_tensor

__all__ = [
    "HashTable",
    "KeyValueTensorInitializer",
    "MutableHashTable",
    "StaticHashTable",
    "TextFileIndex",
    "TextFileInitializer",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
]
