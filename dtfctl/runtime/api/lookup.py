"""`tf.lookup`: tables."""

from __future__ import annotations

from dtfctl.runtime.ops.lookup_ops import (
    DenseHashTable,
    HashTable,
    KeyValueTensorInitializer,
    MutableHashTable,
    StaticHashTable,
    TextFileIndex,
    TextFileInitializer,
    index_table_from_file,
    index_table_from_tensor,
    initialize_all_tables,
    tables_initializer,
)
