"""`tf.keras.models`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import nest
from dtfctl.runtime.keras import registry
from dtfctl.runtime.keras.description import network_config, network_from_config
from dtfctl.runtime.keras.input_layer import Input, InputLayer
from dtfctl.runtime.keras.node import history_of
from dtfctl.runtime.keras.sequential import Sequential
from dtfctl.runtime.keras.training import Model
from dtfctl.runtime.keras.whole_models import load_model as load_model, save_model as save_model


def model_from_config(config: dict[str, Any], custom_objects: Any = None) -> Any:
    """Make the model that a class and a configuration describe."""
    known = {"Model": Model, "Functional": Model, "Sequential": Sequential}
    return registry.deserialize_keras_object(config, known, custom_objects, "model")


def model_from_json(json_string: str, custom_objects: Any = None) -> Any:
    """Make the model that `Model.to_json` described, with new variables."""
    return model_from_config(json.loads(json_string), custom_objects)


def clone_model(model: Any, input_tensors: Any = None, clone_function: Callable[[Any], Any] | None = None) -> Any:
    """Make a model of the same layers, with new variables.

    Args:
        input_tensors: what it is called with; new placeholders when None.
        clone_function: makes a layer of each but those of inputs; one of the same configuration when None.

    Raises:
        ValueError: the model is a subclass with `call`: its code makes it again.
    """
    if model._topology is None and not isinstance(model, Sequential):
        raise ValueError(f"{model.name} is defined by the code of {type(model).__name__}, which makes another")
    clone = clone_function or (lambda layer: type(layer).from_config(layer.get_config()))
    starts = None if input_tensors is None else [_as_input(t) for t in nest.flatten(input_tensors)]
    if isinstance(model, Sequential):
        if starts is not None and len(starts) != 1:
            raise ValueError(f"A Sequential model is cloned with one tensor, not with {len(starts)}")
        layers = [clone(layer) for layer in model.layers]
        if starts is not None:
            return Sequential([history_of(starts[0]).layer, *layers], name=model.name)  # type: ignore[union-attr]
        first = [InputLayer(**layer.get_config()) for layer in model._sublayers()[:1] if isinstance(layer, InputLayer)]
        return Sequential([*first, *layers], name=model.name)
    made: dict[str, Any] = {}
    for index, tensor in enumerate(model.inputs):
        layer = history_of(tensor).layer  # type: ignore[union-attr]
        new = InputLayer(**layer.get_config()) if starts is None else history_of(starts[index]).layer  # type: ignore[union-attr]
        made[layer.name] = new
    for layer in model._topology.layers:
        if layer.name not in made:
            made[layer.name] = clone(layer)
    cls = type(model) if type(model).__init__ is Model.__init__ else Model
    return network_from_config(cls, network_config(model, lambda layer: {}), made=made)


def _as_input(tensor: Any) -> Any:
    """Let a model begin with a tensor."""
    if history_of(tensor) is not None:
        return tensor
    return Input(tensor=tensor, name=f"input_wrapper_for_{tensor.name.replace(':', '_')}")
