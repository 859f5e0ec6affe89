"""`tf.keras.optimizers`."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.keras import registry
from dtfctl.runtime.keras.optimizers import schedules as schedules
from dtfctl.runtime.keras.optimizers.base import Optimizer
from dtfctl.runtime.keras.optimizers.more_rules import Ftrl, Nadam
from dtfctl.runtime.keras.optimizers.rules import SGD, Adadelta, Adagrad, Adam, Adamax, RMSprop
from dtfctl.runtime.keras.optimizers.wrapped import TFOptimizer
from dtfctl.runtime.train import optimizer as tf_optimizer

_OBJECTS: dict[str, Any] = {c.__name__.lower(): c for c in (SGD, Adam, RMSprop, Adagrad, Adadelta, Adamax, Nadam, Ftrl)}


def get(identifier: Any) -> Any:
    """Find an optimizer by name or configuration; one of `tf.train` is wrapped.

    Raises:
        ValueError: there is none of that name.
    """
    if isinstance(identifier, (Optimizer, TFOptimizer)):
        return identifier
    if isinstance(identifier, tf_optimizer.Optimizer):
        return TFOptimizer(identifier)
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        return deserialize({"class_name": identifier, "config": {}})
    raise ValueError(f"Could not interpret optimizer identifier: {identifier!r}")


def serialize(optimizer: Any) -> Any:
    """Describe an optimizer by its class's name and its configuration."""
    return registry.serialize_keras_object(optimizer)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """Make the optimizer that `serialize` described."""
    lower = config["class_name"].lower()
    if lower in _OBJECTS:
        config = {**config, "class_name": lower}
    return registry.deserialize_keras_object(config, _OBJECTS, custom_objects, "optimizer")
