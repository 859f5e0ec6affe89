"""The order of a functional model's layers: by how far each is from the outputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dtfctl.runtime.framework import nest
from dtfctl.runtime.keras.node import Node, node_of


@dataclass
class Topology:
    """The calls and layers between a model's inputs and its outputs, those that come first first."""

    nodes: list[Node]
    layers: list[Any]


def map_graph(inputs: list[Any], outputs: list[Any]) -> Topology:
    """Find what lies between inputs and outputs.

    Raises:
        ValueError: an output does not come from the inputs, or two layers share a name.
    """
    order: list[Node] = []
    layer_indices: dict[Any, int] = {}
    done: set[Node] = set()
    starts = {id(t) for t in inputs}
    for output in outputs:
        _visit(output, starts, order, layer_indices, done)
    depths: dict[Node, int] = {}
    layer_depths: dict[Any, int] = {}
    for node in reversed(order):
        depth = max(depths.setdefault(node, 0), layer_depths.get(node.layer, 0))
        depths[node] = layer_depths[node.layer] = depth
        if _is_start(node, starts):
            continue
        for parent in node.parents:
            depths[parent] = max(depth + 1, depths.get(parent, 0))
    for tensor in inputs:
        node = node_of(tensor)
        if node.layer not in layer_depths:
            layer_depths[node.layer] = depths[node] = 0
            layer_indices[node.layer] = -1
            order.append(node)
    layers = sorted(layer_depths, key=lambda layer: (-layer_depths[layer], layer_indices[layer]))
    place = {node: index for index, node in enumerate(order)}
    nodes = sorted(order, key=lambda node: (-depths[node], place[node]))
    names = [layer.name for layer in layers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f'The name "{twice}" is used {names.count(twice)} times in the model. All layer names should be unique.'
        )
    return Topology(nodes, layers)


def _is_start(node: Node, starts: set[int]) -> bool:
    return all(id(t) in starts for t in nest.flatten(node.outputs))


def _visit(tensor: Any, starts: set[int], order: list[Node], indices: dict[Any, int], done: set[Node]) -> None:
    pending: list[tuple[Node, bool]] = [(node_of(tensor), False)]
    while pending:
        node, entered = pending.pop()
        if entered:
            if node not in done:
                done.add(node)
                order.append(node)
            continue
        if node in done:
            continue
        indices.setdefault(node.layer, len(indices))
        pending.append((node, True))
        if _is_start(node, starts):
            continue
        if not node.parents or node.is_input:
            raise ValueError(
                f'Graph disconnected: cannot obtain value for the output of layer "{node.layer.name}": it does not '
                "come from the inputs of the model."
            )
        pending += [(parent, False) for parent in reversed(node.parents)]
