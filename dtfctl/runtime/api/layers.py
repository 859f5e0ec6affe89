"""`tf.layers`."""

from __future__ import annotations

from dtfctl.runtime.ops.layers import (
    average_pooling2d,
    batch_normalization,
    conv1d,
    conv2d,
    dense,
    dropout,
    flatten,
    max_pooling2d,
)
