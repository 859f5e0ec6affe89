"""`tf.queue`."""

from __future__ import annotations

from dtfctl.runtime.ops.data_flow_ops.queues import (
    FIFOQueue,
    PaddingFIFOQueue,
    PriorityQueue,
    QueueBase,
    RandomShuffleQueue,
)
