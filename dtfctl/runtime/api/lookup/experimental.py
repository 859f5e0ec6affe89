"""`tf.lookup.experimental`: tables that steps write to, kept in checkpoints."""

from __future__ import annotations

from dtfctl.runtime.train.saved_tables import DenseHashTable, MutableHashTable

__all__ = ["DenseHashTable", "MutableHashTable"]
