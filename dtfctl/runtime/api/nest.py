"""`tf.nest`: structures of lists, tuples and dictionaries."""

from __future__ import annotations

from dtfctl.runtime.framework.nest import (
    assert_same_structure,
    flatten,
    is_nested,
    map_structure,
    pack_sequence_as,
)
