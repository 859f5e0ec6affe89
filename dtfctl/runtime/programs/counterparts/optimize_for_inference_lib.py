"""`tensorflow.python.tools.optimize_for_inference_lib`: a frozen graph without what training alone needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dtfctl.runtime as tf
from dtfctl.runtime.programs.counterparts.strip_unused_lib import strip_unused


def optimize_for_inference(
    input_graph_def: Any,
    input_node_names: Sequence[str],
    output_node_names: Sequence[str],
    placeholder_type_enum: Any,
    toco_compatible: bool = False,
    placeholder_to_const_names: Sequence[str] | None = None,
) -> Any:
    """Copy what leads from inputs to outputs, without checks and copies.

    Batch normalization is not folded into weights here: sessions do as well without it.

    Args:
        placeholder_type_enum: the type of the inputs, one for all or one each.
        placeholder_to_const_names: "name=value" of placeholders that become constants.

    Raises:
        KeyError: an input is not in the graph.
    """
    graph_def = tf.GraphDef()
    graph_def.CopyFrom(input_graph_def)
    values = dict(given.split("=", 1) for given in placeholder_to_const_names or ())
    for node in graph_def.node:
        if node.name in values and node.op in ("Placeholder", "PlaceholderWithDefault"):
            _fix(node, values[node.name])
    stripped = strip_unused(graph_def, list(input_node_names), list(output_node_names), placeholder_type_enum)
    return tf.graph_util.remove_training_nodes(stripped, list(output_node_names))


def _fix(node: Any, text: str) -> None:
    """Make a placeholder a constant."""
    dtype = tf.as_dtype(node.attr["dtype"].type)
    value: Any = text.lower() == "true" if dtype is tf.bool else text if dtype is tf.string else dtype.np.type(text)
    made = tf.NodeDef(name=node.name, op="Const")
    made.attr["dtype"].CopyFrom(node.attr["dtype"])
    made.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))
    node.CopyFrom(made)
