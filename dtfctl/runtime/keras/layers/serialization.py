"""Layers from their descriptions."""

from __future__ import annotations

import inspect
from typing import Any

from dtfctl.runtime.keras import registry
from dtfctl.runtime.keras.base_layer import Layer
from dtfctl.runtime.keras.input_layer import InputLayer
from dtfctl.runtime.keras.layers import (
    activation,
    attention,
    convolutional,
    convolved_memory,
    core,
    cudnn,
    depthwise,
    functions,
    local,
    merge,
    noise,
    normalization,
    pooling,
    recurrent,
    resizing,
    separable,
    transposed,
    wrappers,
)
from dtfctl.runtime.keras.op_layer import TensorFlowOpLayer
from dtfctl.runtime.keras.provided import Role, provides
from dtfctl.runtime.keras.sequential import Sequential
from dtfctl.runtime.keras.training import Model

_MODULES = (
    activation,
    attention,
    convolutional,
    convolved_memory,
    core,
    cudnn,
    depthwise,
    functions,
    local,
    merge,
    noise,
    normalization,
    pooling,
    recurrent,
    resizing,
    separable,
    transposed,
    wrappers,
)
_CLASSES = {
    n: v for m in _MODULES for n, v in vars(m).items() if inspect.isclass(v) and issubclass(v, Layer) and n[0] != "_"
} | {
    "InputLayer": InputLayer,
    "TensorFlowOpLayer": TensorFlowOpLayer,
    "Model": Model,
    "Functional": Model,
    "Sequential": Sequential,
}


def serialize(layer: Any) -> Any:
    """Describe a layer by its class's name and its configuration."""
    return registry.serialize_keras_object(layer)


@provides(Role.LAYER)
def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """Make the layer that `serialize` described."""
    return registry.deserialize_keras_object(config, _CLASSES, custom_objects, "layer")
