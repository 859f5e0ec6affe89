"""Names that `tf`, `tf.io` and `tf.queue` have."""

from dtfctl.runtime.ops.data_flow_ops.queues import (
    PaddingFIFOQueue,
    PriorityQueue,
    QueueBase,
    RandomShuffleQueue,
)
