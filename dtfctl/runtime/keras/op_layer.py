"""Ops between the layers of a functional model, as layers: `tf.nn.relu(x) * 2` of a layer's output is a part of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf import json_format

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import context
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.keras.backend.values import get_value
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.node import Node, ancestors, history_of
from dtfctl.runtime.keras.provided import Role, provides


class TensorFlowOpLayer(Layer):
    """One op of the program's, made again when the model is called with other inputs.

    Args:
        node_def: the op, or its description.
        constants: its inputs that no layer makes, by their place; a description has their values.
    """

    def __init__(
        self,
        node_def: Any,
        name: str,
        constants: Mapping[Any, Any] | None = None,
        trainable: bool = True,
        dtype: Any = None,
    ) -> None:
        prefix = "tf_op_layer_"
        super().__init__(name=name if name.startswith(prefix) else prefix + name, trainable=trainable, dtype=dtype)
        self._node_def = (
            json_format.ParseDict(dict(node_def), graph_pb2.NodeDef()) if isinstance(node_def, Mapping) else node_def
        )
        self._constants = {int(place): value for place, value in (constants or {}).items()}
        self.built = True

    @classmethod
    def of(cls, op: Operation) -> TensorFlowOpLayer:
        """Make the layer of an op, as called with the op's inputs."""
        sources = [i for i, t in enumerate(op.inputs) if history_of(t) is not None]
        constants = {i: t for i, t in enumerate(op.inputs) if i not in sources}
        layer = cls(op.node_def, op.name, constants)
        inputs = [op.inputs[i] for i in sources]
        Node(layer, inputs if len(inputs) > 1 else inputs[0], (), {}, list(op.outputs))
        return layer

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Make the op again with these inputs in place of those that come from layers."""
        node, graph = self._node_def, context.get_default_graph()
        signature = graph.library.signature(node.op)
        given = iter(inputs if isinstance(inputs, (list, tuple)) else [inputs])
        tensors: list[Any] = []
        for arg in signature.to_proto().input_arg:
            kind = arg.type or node.attr[arg.type_attr].type
            for _ in range(node.attr[arg.number_attr].i if arg.number_attr else 1):
                value = self._constants.get(len(tensors))
                if value is None:
                    tensors.append(next(given))
                else:
                    tensors.append(value if isinstance(value, Tensor) else constant(value, as_dtype(kind)))
        attrs = {name: value for name, value in node.attr.items() if name in signature.attr_by_name}
        made = graph.add_op(signature, tensors, attrs, name=node.name.rpartition("/")[2])
        return list(made.outputs)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again, with the values that its other inputs have now."""
        values = {
            place: np.asarray(get_value(value) if isinstance(value, Tensor) else value).tolist()
            for place, value in self._constants.items()
        }
        config = super().get_config()
        name = config.pop("name").removeprefix("tf_op_layer_")
        return {**config, "name": name, "node_def": json_format.MessageToDict(self._node_def), "constants": values}


@provides(Role.HISTORY)
def create_history(tensors: list[Any]) -> bool:
    """Make layers of the ops that lie between these tensors and layers' outputs; False where there are none."""
    sources = [t for t in tensors if isinstance(t, Tensor)]
    if len(sources) != len(tensors):
        return False
    if not any(_from_layers(t) for t in sources):
        return False
    for t in sources:
        if history_of(t) is None:
            _wrap(t)
    return all(history_of(t) is not None for t in sources)


def _from_layers(tensor: Tensor) -> bool:
    return any(history_of(t) is not None for op in ancestors(tensor.op) for t in (*op.inputs, *op.outputs))


def _wrap(tensor: Tensor) -> None:
    pending = [tensor.op]
    while pending:
        op = pending[-1]
        if all(history_of(t) is not None for t in op.outputs):
            pending.pop()
            continue
        missing = [t.op for t in op.inputs if history_of(t) is None and _from_layers(t)]
        if missing:
            pending += missing
            continue
        pending.pop()
        if any(history_of(t) is not None for t in op.inputs):
            TensorFlowOpLayer.of(op)
