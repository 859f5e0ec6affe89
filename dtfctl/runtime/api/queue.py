"""`tf.queue`."""

from __future__ import annotations

from dtfctl.runtime.api._shared.queues import *
from dtfctl.runtime.ops.data_flow_ops.queues import FIFOQueue
