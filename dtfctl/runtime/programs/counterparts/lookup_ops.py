"""`tensorflow.python.ops.lookup_ops`: `tf.lookup`, and tables from ids to words."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.api import lookup
from dtfctl.runtime.ops.vocabulary_tables import (
    index_to_string_table_from_file as index_to_string_table_from_file,
    index_to_string_table_from_tensor as index_to_string_table_from_tensor,
)


def __getattr__(name: str) -> Any:
    return getattr(lookup, name)
