"""`tf.sets`."""

from __future__ import annotations

from dtfctl.runtime.ops.sparse_ops.sets import (
    set_difference,
    set_difference as difference,
    set_intersection,
    set_intersection as intersection,
    set_size,
    set_size as size,
    set_union,
    set_union as union,
)
