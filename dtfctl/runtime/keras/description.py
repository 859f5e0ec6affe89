"""Functional models as descriptions: layers, and the calls that connect them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import registry
from dtfctl.runtime.keras.call_arguments import argument_names
from dtfctl.runtime.keras.node import history_of
from dtfctl.runtime.keras.provided import Role, provided

_CONSTANT = "_CONSTANT_VALUE"


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Apply a function to what is in lists and dictionaries; to all of `function` is not None for."""
    found = function(value)
    if found is not None:
        return found
    if isinstance(value, dict):
        return {key: _mapped(function, each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mapped(function, each) for each in value]
    return value


def network_config(network: Any, describe: Callable[[Any], dict[str, Any]] | None = None) -> dict[str, Any]:
    """Describe a functional model: its layers, and the calls that connect them.

    Args:
        describe: what describes a layer; its class and configuration when None.
    """
    if network._topology is None:
        raise NotImplementedError(f"{type(network).__name__} is defined by its code, and has no configuration")
    describe = describe or registry.serialize_keras_object
    kept = set(network._topology.nodes)
    numbers: dict[Any, int] = {}
    layers: list[dict[str, Any]] = []
    for layer in network._topology.layers:
        count = 0
        for node in layer._inbound_nodes:
            if node in kept:
                numbers[node] = count
                count += 1

    def place(tensor: Any) -> list[Any]:
        layer, index, position = tensor._keras_history
        return [layer.name, numbers[layer._inbound_nodes[index]], position]

    def argument(value: Any, layer: Any) -> Any:
        if not isinstance(value, Tensor):
            return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else None
        if history_of(value) is not None:
            return place(value)
        known = constant_value(value)
        if known is None:
            raise NotImplementedError(
                f"Layer {layer.name} is called with the tensor {value.name}, which no layer made: it has no description"
            )
        return known.tolist()

    for layer in network._topology.layers:
        calls = []
        for node in layer._inbound_nodes:
            if node not in kept or node.is_input:
                continue
            named = dict(zip(argument_names(layer.call)[1:], node.args)) | node.kwargs
            own = _mapped(functools.partial(argument, layer=layer), named)
            calls.append(
                [
                    [*place(t), own] if history_of(t) is not None else [_CONSTANT, -1, argument(t, layer), own]
                    for t in nest.flatten(node.inputs)
                ]
            )
        layers.append({**describe(layer), "name": layer.name, "inbound_nodes": calls})
    return {
        "name": network.name,
        "layers": layers,
        "input_layers": [place(t) for t in network.inputs],
        "output_layers": [place(t) for t in network.outputs],
    }


class _NotYet(Exception):
    """A call whose inputs are not made yet."""


def network_from_config(
    cls: Any, config: dict[str, Any], custom_objects: Any = None, made: dict[str, Any] | None = None
) -> Any:
    """Make a functional model of its description.

    Args:
        made: layers that are there already, by name.
    """
    layers: dict[str, Any] = dict(made or {})
    outputs: dict[tuple[str, int, int], Any] = {}
    pending: list[tuple[Any, int, list[Any]]] = []
    for described in config["layers"]:
        name = described["name"]
        if name not in layers:
            kind = {"class_name": described["class_name"], "config": described["config"]}
            layers[name] = provided(Role.LAYER)(kind, custom_objects)
        if not described["inbound_nodes"]:
            outputs[name, 0, 0] = layers[name]._inbound_nodes[0].outputs
        pending += [(name, i, call) for i, call in enumerate(described["inbound_nodes"])]

    def is_place(value: Any) -> bool:
        return isinstance(value, list) and len(value) == 3 and isinstance(value[0], str) and value[0] in layers

    def argument(value: Any) -> Any:
        if not is_place(value):
            return None
        if tuple(value) not in outputs:
            raise _NotYet
        return outputs[tuple(value)]

    def source(found: list[Any]) -> Any:
        if found[0] == _CONSTANT:
            return np.asarray(found[2])
        if tuple(found[:3]) not in outputs:
            raise _NotYet
        return outputs[tuple(found[:3])]

    while pending:
        left: list[tuple[Any, int, list[Any]]] = []
        waiting: set[str] = set()
        for name, index, call in pending:
            try:
                if name in waiting:
                    raise _NotYet
                given = [source(found) for found in call]
                own = _mapped(argument, call[0][3] if call and len(call[0]) > 3 else {})
            except _NotYet:
                left.append((name, index, call))
                waiting.add(name)
                continue
            found = layers[name](given if len(given) > 1 else given[0], **own)
            for position, tensor in enumerate(nest.flatten(found)):
                outputs[name, index, position] = tensor
        if len(left) == len(pending):
            raise ValueError(f"The configuration of {config.get('name')} has calls whose inputs nothing makes")
        pending = left
    ins = [outputs[tuple(p)] for p in config["input_layers"]]
    outs = [outputs[tuple(p)] for p in config["output_layers"]]
    name = config.get("name")
    return cls(inputs=ins if len(ins) > 1 else ins[0], outputs=outs if len(outs) > 1 else outs[0], name=name)
