"""`tf.lookup`: tables."""

from __future__ import annotations
