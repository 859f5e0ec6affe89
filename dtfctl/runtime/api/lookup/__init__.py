"""`tf.lookup`: tables."""

from __future__ import annotations

from dtfctl.runtime.api._shared.tables import *
from dtfctl.runtime.api.lookup import experimental
from dtfctl.runtime.ops.lookup_ops import (
    DenseHashTable,
    HashTable,
    KeyValueTensorInitializer,
    MutableHashTable,
    StaticHashTable,
    TextFileIndex,
    TextFileInitializer,
    initialize_all_tables,
)
from dtfctl.runtime.ops.vocabulary_tables import (
    FastHashSpec,
    HasherSpec,
    IdTableWithHashBuckets,
    StaticVocabularyTable,
    StrongHashSpec,
    index_table_from_file,
    index_table_from_tensor,
)
