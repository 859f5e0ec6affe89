"""`tensorflow.python.tools.strip_unused_lib`: a graph without what is not between inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dtfctl.runtime as tf


def strip_unused(
    input_graph_def: Any, input_node_names: Sequence[str], output_node_names: Sequence[str], placeholder_type_enum: Any
) -> Any:
    """Copy what leads from inputs, which become placeholders, to outputs.

    Args:
        placeholder_type_enum: the type of the placeholders, one for all or one each.

    Raises:
        KeyError: an input is not in the graph.
    """
    left = set(input_node_names)
    if missing := left - {n.name for n in input_graph_def.node}:
        raise KeyError(f"The following input nodes were not found: {missing}")
    each = isinstance(placeholder_type_enum, list)
    replaced = tf.GraphDef()
    replaced.CopyFrom(input_graph_def)
    for node in replaced.node:
        if node.name not in left:
            continue
        number = placeholder_type_enum[list(input_node_names).index(node.name)] if each else placeholder_type_enum
        made = tf.NodeDef(name=node.name, op="Placeholder")
        made.attr["dtype"].type = number
        for key in ("shape", "_output_shapes"):
            if key in node.attr:
                made.attr[key].CopyFrom(node.attr[key])
        node.CopyFrom(made)
    return tf.graph_util.extract_sub_graph(replaced, list(output_node_names))
