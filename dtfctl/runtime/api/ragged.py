"""`tf.ragged`."""

from __future__ import annotations

from dtfctl.runtime.ops.ragged_ops import (
    indexing as _indexing,
    measures as _measures,
    operators as _operators,
)
from dtfctl.runtime.ops.ragged_ops.arranging import (
    boolean_mask,
    cross,
    cross_hashed,
    ragged_range as range,
    row_splits_to_segment_ids,
    segment_ids_to_row_splits,
    stack_dynamic_partitions,
)
from dtfctl.runtime.ops.ragged_ops.broadcasting import map_flat_values
from dtfctl.runtime.ops.ragged_ops.factories import constant, constant_value, placeholder
from dtfctl.runtime.ops.ragged_ops.joining import stack
from dtfctl.runtime.ops.ragged_ops.ragged_value import RaggedTensorValue
