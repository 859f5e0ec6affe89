"""Ops between the layers of a functional model, as layers: `tf.nn.relu(x) * 2` of a layer's output is a part of it."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.keras import state
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.node import Node, ancestors, history_of
from dtfctl.runtime.keras.provided import Role, provides


class TensorFlowOpLayer(Layer):
    """One op of the program's, made again when the model is called with other inputs."""

    def __init__(self, op: Operation) -> None:
        super().__init__(name=state.unique_name(f"tf_op_layer_{op.name.replace('/', '_')}"))
        self._op = op
        self.built = True
        sources = [i for i, t in enumerate(op.inputs) if history_of(t) is not None]
        self._positions = sources
        inputs = [op.inputs[i] for i in sources]
        Node(self, inputs if len(inputs) > 1 else inputs[0], (), {}, list(op.outputs))

    def call(self, inputs: Any, **kwargs: Any) -> Any:
        """Make the op again with these inputs in place of those that come from layers."""
        given = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        tensors = list(self._op.inputs)
        for position, tensor in zip(self._positions, given):
            tensors[position] = tensor
        graph = tensors[0].graph
        made = graph.add_op(self._op.signature, tensors, dict(self._op.attrs), name=self._op.name.rpartition("/")[2])
        return list(made.outputs)

    def get_config(self) -> dict[str, Any]:
        """Fail: an op has no configuration here."""
        raise NotImplementedError("Models with ops between their layers have no configuration here: use Lambda layers")


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
            TensorFlowOpLayer(op)
