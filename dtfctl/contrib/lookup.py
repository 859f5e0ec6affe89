"""`tf.contrib.lookup`: tables from ids to words and back."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf
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


def index_to_string_table_from_tensor(
    vocabulary_list: Any = None, default_value: Any = "UNK", name: str | None = None, mapping: Any = None
) -> Any:
    """Make a table from ids to the words of a vector, and `default_value` for other ids.

    Raises:
        ValueError: there are no words.
    """
    words = vocabulary_list if mapping is None else mapping
    if words is None:
        raise ValueError("vocabulary_list must be specified.")
    values = tf.convert_to_tensor(words, tf.string)
    keys = tf.range(tf.size(values, out_type=tf.int64), dtype=tf.int64)
    with tf.name_scope(name, "index_to_string"):
        return StaticHashTable(KeyValueTensorInitializer(keys, values, tf.int64, tf.string), default_value)


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: Any = "UNK",
    name: str | None = None,
    key_column_index: Any = TextFileIndex.LINE_NUMBER,
    value_column_index: Any = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> Any:
    """Make a table from numbers of lines to the lines of a file, and `default_value` for other numbers."""
    with tf.name_scope(name, "index_to_string"):
        start = TextFileInitializer(
            vocabulary_file, tf.int64, key_column_index, tf.string, value_column_index, vocab_size, delimiter
        )
        return StaticHashTable(start, default_value)
