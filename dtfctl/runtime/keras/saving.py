"""Weights in files, models as configurations and as tables."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import nest
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.keras import hdf5, registry, state
from dtfctl.runtime.keras.provided import Role, provided


def _need_weights(model: Any) -> None:
    if not model.weights:
        raise ValueError(
            f"Model {model.name} has no weights yet: call it, or build it with an input shape, before its weights are "
            "saved or loaded"
        )


def save_weights(model: Any, path: str, overwrite: bool, save_format: str | None) -> None:
    """Write the variables of a model."""
    path = os.fspath(path)
    _need_weights(model)
    if hdf5.is_hdf5(path, save_format):
        if not overwrite and os.path.exists(path):
            raise FileExistsError(path)
        with hdf5.replaced(path) as file:
            hdf5.write_layers(file, model)
        return
    from dtfctl.runtime.train.checkpoint import Checkpointer
    from dtfctl.runtime.train.checkpoint_management import update_checkpoint_state

    Checkpointer(model).save(path, state.get_session())
    update_checkpoint_state(os.path.dirname(path), path, [path])


def load_weights(model: Any, path: str, by_name: bool) -> Any:
    """Read the variables of a model."""
    path = os.fspath(path)
    if os.path.exists(f"{path}.index"):
        if by_name:
            raise NotImplementedError(
                "Weights may only be loaded based on topology into Models from checkpoints: by_name is for HDF5"
            )
        from dtfctl.runtime.train.checkpoint import Checkpointer

        status = Checkpointer(model).restore(path)
        if model.weights:
            status.initialize_or_restore(state.get_session())
        return status
    _need_weights(model)
    with hdf5.opened(path, "r") as file:
        hdf5.read_layers(file.get("model_weights", file), model, by_name)
    return None


# Configurations -------------------------------------------------------------------------------------------------------


def network_config(network: Any) -> dict[str, Any]:
    """Describe a functional model: its layers, and the calls that connect them."""
    if network._topology is None:
        raise NotImplementedError(f"{type(network).__name__} is defined by its code, and has no configuration")
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

    for layer in network._topology.layers:
        calls = []
        for node in layer._inbound_nodes:
            if node not in kept or node.is_input:
                continue
            if node.args or any(v is not None for v in node.kwargs.values()):
                raise NotImplementedError(f"The call of layer {layer.name} has arguments: it has no configuration here")
            calls.append([[*place(t), {}] for t in nest.flatten(node.inputs)])
        described = registry.serialize_keras_object(layer)
        layers.append({**described, "name": layer.name, "inbound_nodes": calls})
    return {
        "name": network.name,
        "layers": layers,
        "input_layers": [place(t) for t in network.inputs],
        "output_layers": [place(t) for t in network.outputs],
    }


def network_from_config(cls: Any, config: dict[str, Any], custom_objects: Any) -> Any:
    """Make a functional model of its description."""
    made: dict[str, Any] = {}
    outputs: dict[tuple[str, int, int], Any] = {}
    pending: list[tuple[Any, int, list[Any]]] = []
    for described in config["layers"]:
        layer = provided(Role.LAYER)(
            {"class_name": described["class_name"], "config": described["config"]}, custom_objects
        )
        made[described["name"]] = layer
        if not described["inbound_nodes"]:
            outputs[described["name"], 0, 0] = layer._inbound_nodes[0].outputs
        pending += [(described["name"], i, call) for i, call in enumerate(described["inbound_nodes"])]
    while pending:
        left = []
        for name, index, call in pending:
            places = [tuple(source[:3]) for source in call]
            if any(p not in outputs for p in places):
                left.append((name, index, call))
                continue
            given = [outputs[p] for p in places]
            found = made[name](given if len(given) > 1 else given[0])
            for position, tensor in enumerate(nest.flatten(found)):
                outputs[name, index, position] = tensor
        if len(left) == len(pending):
            raise ValueError(f"The configuration of {config.get('name')} has calls whose inputs nothing makes")
        pending = left
    ins = [outputs[tuple(p)] for p in config["input_layers"]]
    outs = [outputs[tuple(p)] for p in config["output_layers"]]
    name = config.get("name")
    return cls(inputs=ins if len(ins) > 1 else ins[0], outputs=outs if len(outs) > 1 else outs[0], name=name)


def plain(value: Any) -> Any:
    """Make what JSON has of what configurations have besides."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if hasattr(value, "as_list"):
        return value.as_list()
    if isinstance(value, DType):
        return value.name
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    raise TypeError(f"Not JSON serializable: {value!r}")


def to_json(model: Any, **kwargs: Any) -> str:
    """Write class and configuration as JSON."""
    whole = {
        "class_name": type(model).__name__,
        "config": model.get_config(),
        "keras_version": "2.2.4-tf",
        "backend": "tensorflow",
    }
    return json.dumps(whole, default=plain, **kwargs)


# A table --------------------------------------------------------------------------------------------------------------


def print_summary(model: Any, line_length: int | None, positions: Any, print_fn: Callable[[str], Any]) -> None:
    """Print the layers, the shapes of their outputs and how many parameters they have."""
    if not model.built and not model.weights:
        raise ValueError(
            "This model has not yet been built. Build the model first by calling "
            "`build()` or calling `fit()` with some "
            "data, or specify an `input_shape` argument in the first layer(s) for automatic build."
        )
    width = line_length or 65
    shares = positions or [0.45, 0.85, 1.0]
    ends = [int(width * p) if shares[-1] <= 1 else int(p) for p in shares]

    def row(fields: list[str]) -> None:
        line = ""
        for field, end in zip(fields, ends):
            line = f"{line}{field} "[:end].ljust(end)
        print_fn(line)

    print_fn(f'Model: "{model.name}"')
    print_fn("_" * width)
    row(["Layer (type)", "Output Shape", "Param #"])
    print_fn("=" * width)
    layers = model.layers
    for index, layer in enumerate(layers):
        try:
            shape = str(layer.output_shape)
        except (AttributeError, ValueError):
            shape = "multiple"
        count = layer.count_params() if layer.built else 0
        row([f"{layer.name} ({type(layer).__name__})", shape, str(count)])
        print_fn("=" * width if index == len(layers) - 1 else "_" * width)
    trained = sum(int(np.prod(w.shape.as_list())) for w in model.trainable_weights)
    fixed = sum(int(np.prod(w.shape.as_list())) for w in model.non_trainable_weights)
    print_fn(f"Total params: {trained + fixed:,}")
    print_fn(f"Trainable params: {trained:,}")
    print_fn(f"Non-trainable params: {fixed:,}")
    print_fn("_" * width)
