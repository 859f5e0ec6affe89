"""`tensorflow.python.ops.tensor_getitem_override`: what it says of what is no index."""

from __future__ import annotations

_SLICE_TYPE_ERROR = (
    "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid "
    "indices"
)
