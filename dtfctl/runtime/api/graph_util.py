"""`tf.graph_util`: graphs cut down to what some nodes need, and frozen."""

from __future__ import annotations

from dtfctl.runtime.client.freeze import convert_variables_to_constants
from dtfctl.runtime.framework.graph_util import (
    extract_sub_graph,
    must_run_on_cpu,
    remove_training_nodes,
    tensor_shape_from_node_def_name,
)
from dtfctl.runtime.framework.importer import import_graph_def
