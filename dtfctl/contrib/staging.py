"""`tf.contrib.staging`."""

from __future__ import annotations

from dtfctl.runtime.ops.data_flow_ops.staging import StagingArea

__all__ = ["StagingArea"]
