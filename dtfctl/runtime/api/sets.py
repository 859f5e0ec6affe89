"""`tf.sets`."""

from __future__ import annotations

from dtfctl.runtime.ops.sparse_ops.sets import (
    set_difference,
    set_intersection,
    set_size,
    set_union,
)

difference = set_difference
intersection = set_intersection
size = set_size
union = set_union
