"""`tf.keras.models`."""

from __future__ import annotations

import json
from typing import Any

from dtfctl.runtime.keras import registry
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


def clone_model(model: Any, input_tensors: Any = None, clone_function: Any = None) -> Any:
    """Make a model of the same layers, with new variables.

    Raises:
        NotImplementedError: input tensors or a function are given.
    """
    if input_tensors is not None or clone_function is not None:
        raise NotImplementedError("tf.keras.models.clone_model takes a model only; call the clone with your tensors")
    return type(model).from_config(model.get_config())
