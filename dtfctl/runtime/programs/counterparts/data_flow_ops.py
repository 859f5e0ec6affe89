"""`tensorflow.python.ops.data_flow_ops`: what is not a public name of it."""

from dtfctl.runtime.ops.data_flow_ops.barrier import Barrier
from dtfctl.runtime.ops.data_flow_ops.map_staging import MapStagingArea
from dtfctl.runtime.ops.data_flow_ops.record_input import RecordInput

__all__ = ["Barrier", "MapStagingArea", "RecordInput"]
