"""`tf.keras.initializers`: TF1's initializers under Keras's names and defaults."""

from __future__ import annotations

import re
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.keras import registry
from dtfctl.runtime.ops import init_ops
from dtfctl.runtime.ops.init_ops import (
    Constant,
    GlorotNormal,
    GlorotUniform,
    Identity,
    Initializer as Initializer,
    Ones,
    Orthogonal,
    VarianceScaling,
    Zeros,
    he_normal,
    he_uniform,
    lecun_normal,
    lecun_uniform,
)


class RandomNormal(init_ops.RandomNormal):
    """Draw from a normal distribution, of standard deviation 0.05 unless told otherwise."""

    def __init__(
        self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


class RandomUniform(init_ops.RandomUniform):
    """Draw from a uniform distribution, between -0.05 and 0.05 unless told otherwise."""

    def __init__(
        self, minval: Any = -0.05, maxval: Any = 0.05, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        super().__init__(minval, maxval, seed, dtype)


class TruncatedNormal(init_ops.TruncatedNormal):
    """Draw from a normal distribution cut at two standard deviations, of 0.05 unless told otherwise."""

    def __init__(
        self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None, dtype: Any = dtypes.float32
    ) -> None:
        super().__init__(mean, stddev, seed, dtype)


zeros, ones, constant, identity, orthogonal = Zeros, Ones, Constant, Identity, Orthogonal
glorot_uniform, glorot_normal = GlorotUniform, GlorotNormal
normal = random_normal = RandomNormal
uniform = random_uniform = RandomUniform
truncated_normal = TruncatedNormal

_CLASSES = (
    *(Zeros, Ones, Constant, Identity, Orthogonal, GlorotUniform, GlorotNormal, VarianceScaling),
    *(RandomNormal, RandomUniform, TruncatedNormal),
)
_OBJECTS: dict[str, Any] = {c.__name__: c for c in _CLASSES}
_OBJECTS |= {re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower(): c for name, c in list(_OBJECTS.items())}
_OBJECTS |= {"normal": RandomNormal, "uniform": RandomUniform, "one": Ones, "zero": Zeros}
_FUNCTIONS: dict[str, Any] = {f.__name__: f for f in (he_normal, he_uniform, lecun_normal, lecun_uniform)}
# As Keras writes them into configurations: there they are classes.
_FUNCTIONS |= {name.title().replace("_", ""): f for name, f in list(_FUNCTIONS.items())}
_OBJECTS |= _FUNCTIONS


def get(identifier: Any) -> Any:
    """Find an initializer by name or configuration; an object is itself."""
    if isinstance(identifier, str) and identifier in _FUNCTIONS:
        return _FUNCTIONS[identifier]()
    return _get(identifier)


_get = registry.getter(_OBJECTS, "initializer")


def serialize(initializer: Any) -> Any:
    """Describe an initializer by its class's name and its configuration."""
    return registry.serialize_keras_object(initializer)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """Make the initializer that `serialize` described."""
    return registry.deserialize_keras_object(config, _OBJECTS, custom_objects, "initializer")
