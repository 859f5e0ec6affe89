"""`tf.keras.constraints`: what weights are brought back to after each update."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import registry
from dtfctl.runtime.ops import array_ops, clip_ops, math_ops

_EPSILON = 1e-7


class Constraint:
    """Base of constraints: called with a weight, one returns what it may be."""

    def __call__(self, w: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what a weight may be: define __call__")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Constraint:
        """Make the one that `get_config` described."""
        return cls(**config)


def _norms(w: Any, axis: Any) -> Tensor:
    return math_ops.sqrt(math_ops.reduce_sum(math_ops.square(w), axis=axis, keepdims=True))


class MaxNorm(Constraint):
    """Weights whose norm along `axis` is at most `max_value`."""

    def __init__(self, max_value: float = 2, axis: Any = 0) -> None:
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: Any) -> Tensor:
        norms = _norms(w, self.axis)
        limited: Tensor = w * (clip_ops.clip_by_value(norms, 0.0, self.max_value) / (_EPSILON + norms))
        return limited

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {"max_value": self.max_value, "axis": self.axis}


class NonNeg(Constraint):
    """Weights that are not negative."""

    def __call__(self, w: Any) -> Tensor:
        limited: Tensor = w * math_ops.cast(math_ops.greater_equal(w, 0.0), w.dtype)
        return limited


class UnitNorm(Constraint):
    """Weights whose norm along `axis` is one."""

    def __init__(self, axis: Any = 0) -> None:
        self.axis = axis

    def __call__(self, w: Any) -> Tensor:
        limited: Tensor = w / (_EPSILON + _norms(w, self.axis))
        return limited

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {"axis": self.axis}


class MinMaxNorm(Constraint):
    """Weights whose norm along `axis` is between two values; `rate` says how far one step goes."""

    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Any = 0) -> None:
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: Any) -> Tensor:
        norms = _norms(w, self.axis)
        wanted = self.rate * clip_ops.clip_by_value(norms, self.min_value, self.max_value) + (1 - self.rate) * norms
        limited: Tensor = w * (wanted / (_EPSILON + norms))
        return limited

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {"min_value": self.min_value, "max_value": self.max_value, "rate": self.rate, "axis": self.axis}


class RadialConstraint(Constraint):
    """Kernels of square convolutions that have one value at each distance from their middle, from their diagonal."""

    def __call__(self, w: Any) -> Tensor:
        shape = w.shape.as_list()
        if len(shape) != 4 or shape[0] != shape[1] or shape[0] < 2:
            raise ValueError(f"The weight must have the shape [n, n, channels, kernels], n at least 2, not {w.shape}")
        half, is_odd = divmod(shape[0], 2)
        # Where the values of the diagonal come from that rings around the middle have.
        sources = [half - 1, *(range(half, shape[0]) if is_odd else range(half + 1, shape[0]))]
        distance = np.abs(np.arange(shape[0]) - (shape[0] - 1) / 2)
        rings = np.floor(np.maximum(distance[:, None], distance[None, :])).astype(int)
        diagonal = array_ops.stack([w[source, source] for source in sources])
        return array_ops.gather(diagonal, rings)


max_norm, non_neg, unit_norm, min_max_norm = MaxNorm, NonNeg, UnitNorm, MinMaxNorm
radial_constraint = RadialConstraint
_OBJECTS: dict[str, Any] = {c.__name__: c for c in (MaxNorm, NonNeg, UnitNorm, MinMaxNorm, RadialConstraint)}
_OBJECTS |= {"max_norm": MaxNorm, "non_neg": NonNeg, "unit_norm": UnitNorm, "min_max_norm": MinMaxNorm}
_OBJECTS["radial_constraint"] = RadialConstraint
get = registry.getter(_OBJECTS, "constraint")


def serialize(constraint: Any) -> Any:
    """Describe a constraint by its class's name and its configuration."""
    return registry.serialize_keras_object(constraint)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """Make the constraint that `serialize` described."""
    return registry.deserialize_keras_object(config, _OBJECTS, custom_objects, "constraint")
