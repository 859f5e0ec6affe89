"""`tf.keras.regularizers`: what a layer's weights or outputs add to the loss."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras import registry
from dtfctl.runtime.ops import math_ops


class Regularizer:
    """Base of regularizers: called with a tensor, one returns a scalar."""

    def __call__(self, x: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what a tensor costs: define __call__")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it is made again: define get_config")

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Regularizer:
        """Make the one that `get_config` described."""
        return cls(**config)


class L1L2(Regularizer):
    """l1 * sum(abs(x)) + l2 * sum(square(x))."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1, self.l2 = float(l1), float(l2)

    def __call__(self, x: Any) -> Tensor:
        """Compute the loss of a variable."""
        total = constant(0.0, x.dtype.base_dtype)
        if self.l1:
            total += self.l1 * math_ops.reduce_sum(math_ops.abs(x))
        if self.l2:
            total += self.l2 * math_ops.reduce_sum(math_ops.square(x))
        return total

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {"l1": self.l1, "l2": self.l2}


class L1(L1L2):
    """l1 * sum(abs(x))."""

    def __init__(self, l1: float = 0.01, **kwargs: Any) -> None:
        super().__init__(l1=_amount(l1, kwargs))

    def __call__(self, x: Any) -> Tensor:
        """Compute the loss of a variable."""
        return self.l1 * math_ops.reduce_sum(math_ops.abs(x))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {"l1": self.l1}


class L2(L1L2):
    """l2 * sum(square(x))."""

    def __init__(self, l2: float = 0.01, **kwargs: Any) -> None:
        super().__init__(l2=_amount(l2, kwargs))

    def __call__(self, x: Any) -> Tensor:
        """Compute the loss of a variable."""
        return self.l2 * math_ops.reduce_sum(math_ops.square(x))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {"l2": self.l2}


def _amount(given: float, kwargs: dict[str, Any]) -> float:
    """Return what is charged, which may be called `l`."""
    amount = float(kwargs.pop("l", given))
    if kwargs:
        raise TypeError(f"Argument(s) not recognized: {kwargs}")
    return amount


l1, l2 = L1, L2


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """Charge l1 * sum(abs(x)) + l2 * sum(square(x))."""
    return L1L2(l1=l1, l2=l2)


_OBJECTS: dict[str, Any] = {"L1L2": L1L2, "L1": L1, "L2": L2, "l1": l1, "l2": l2, "l1_l2": l1_l2}


def get(identifier: Any) -> Any:
    """Find a regularizer by name or configuration; an object is itself."""
    found = _get(identifier)
    return found() if isinstance(identifier, str) and found in (l1, l2, l1_l2) else found


_get = registry.getter(_OBJECTS, "regularizer")


def serialize(regularizer: Any) -> Any:
    """Describe a regularizer by its class's name and its configuration."""
    return registry.serialize_keras_object(regularizer)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """Make the regularizer that `serialize` described."""
    return registry.deserialize_keras_object(config, _OBJECTS, custom_objects, "regularizer")
