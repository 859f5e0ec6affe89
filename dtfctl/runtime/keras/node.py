"""Calls of layers as nodes of functional models, and what tensors were computed from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.operation import Operation, Tensor


class History(NamedTuple):
    """Where a tensor comes from: output `tensor_index` of call `node_index` of a layer."""

    layer: Any
    node_index: int
    tensor_index: int


class Node:
    """One call of a layer with tensors that come from `tf.keras.Input`."""

    def __init__(self, layer: Any, inputs: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        self.layer, self.inputs, self.args, self.kwargs, self.outputs = layer, inputs, args, dict(kwargs), outputs
        self.index = len(layer._inbound_nodes)
        layer._inbound_nodes.append(self)
        for tensor_index, tensor in enumerate(nest.flatten(outputs)):
            tensor._keras_history = History(layer, self.index, tensor_index)
        for tensor in self.sources:
            tensor._keras_history.layer._outbound_nodes.append(self)

    @property
    def is_input(self) -> bool:
        """Whether a model may begin here: the call that stands for a placeholder."""
        return self.inputs is self.outputs

    @property
    def sources(self) -> list[Any]:
        """The tensors of other layers that it was called with, wherever in its arguments."""
        everything = [self.inputs, list(self.args), self.kwargs]
        return [t for t in nest.flatten(everything) if isinstance(t, Tensor) and history_of(t) is not None]

    @property
    def parents(self) -> list[Node]:
        """The calls that its inputs come from."""
        return [node_of(t) for t in self.sources]

    @property
    def inbound_layers(self) -> Any:
        """The layers that its inputs come from; the layer itself where there is one."""
        layers = [node.layer for node in self.parents]
        return layers[0] if len(layers) == 1 else layers


def history_of(tensor: Any) -> History | None:
    """Return where a tensor comes from, None for one that no layer made in a functional model."""
    return getattr(tensor, "_keras_history", None)


def node_of(tensor: Any) -> Node:
    """Return the call that made a tensor."""
    history = tensor._keras_history
    node: Node = history.layer._inbound_nodes[history.node_index]
    return node


def ancestors(op: Operation) -> Iterator[Operation]:
    """Walk over an op and all that it is computed from, the ops whose end it waits for among them."""
    seen = {op}
    pending = [op]
    while pending:
        current = pending.pop()
        yield current
        for source in (*(t.op for t in current.inputs), *current.control_inputs):
            if source not in seen:
                seen.add(source)
                pending.append(source)


def depends_on(targets: Sequence[Any], inputs: Sequence[Any]) -> list[bool]:
    """Say of each tensor or op whether it is computed from one of the inputs."""
    wanted = {t.op for t in inputs if isinstance(t, Tensor)}
    return [
        any(op in wanted for op in ancestors(target if isinstance(target, Operation) else target.op))
        for target in targets
    ]


def relevant(found: list[Any], inputs: Any) -> list[Any]:
    """Choose the losses or updates that depend on inputs; those of no call's inputs when `inputs` is None."""
    if inputs is None:
        return [f for f in found if getattr(f, "_unconditional", True)]
    conditional = [f for f in found if not getattr(f, "_unconditional", True)]
    return [f for f, yes in zip(conditional, depends_on(conditional, nest.flatten(inputs))) if yes]
