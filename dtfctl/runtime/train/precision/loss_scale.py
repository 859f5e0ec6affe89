"""Factors on a loss that keep small gradients of half precision from becoming zero: fixed ones, and one that adapts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from dtfctl.runtime.framework import context, dtypes, nest
from dtfctl.runtime.framework.convert import IndexedSlices, convert_to_tensor
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import math_ops
from dtfctl.runtime.ops.cond import cond
from dtfctl.runtime.ops.grouping import group
from dtfctl.runtime.ops.op_defs.control import no_op
from dtfctl.runtime.ops.variables import Variable


class LossScale(ABC):
    """A factor on a loss; called, it gives the factor as a float32 scalar."""

    def __init__(self) -> None:
        self._weights: dict[tuple[str, Any], Any] = {}

    @abstractmethod
    def __call__(self) -> Tensor:
        """Make a tensor of the factor."""

    @abstractmethod
    def update(self, grads: Any) -> tuple[Any, Any]:
        """Make an op that adapts the factor to the gradients of a step.

        Args:
            grads: a structure of tensors, IndexedSlices and Nones, divided by the factor already.

        Returns:
            The op, and whether the gradients are to be applied: a bool, or a bool scalar.
        """

    @abstractmethod
    def get_config(self) -> dict[str, Any]:
        """Tell what to give `from_config` for such a factor."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Any:
        return cls(**config)

    def _add_weight(self, name: str, initial_value: Any, dtype: Any = None) -> Any:
        """Make a variable of the factor's own.

        Raises:
            RuntimeError: it has one of that name in this graph.
        """
        key = (name, context.get_default_graph())
        if key in self._weights:
            raise RuntimeError(f"Duplicate variables detected. {key}")
        made = Variable(initial_value, name=name, dtype=dtype, trainable=False, use_resource=True)
        self._weights[key] = made
        return made


class FixedLossScale(LossScale):
    """The same factor always.

    Args:
        loss_scale_value: at least 1.

    Raises:
        ValueError: it is no number, or less than 1.
    """

    def __init__(self, loss_scale_value: float) -> None:
        super().__init__()
        if not isinstance(loss_scale_value, (int, float)):
            raise ValueError("loss_scale_value must be a Python int or float.")
        if loss_scale_value < 1:
            raise ValueError("loss_scale_value must be at least 1.")
        self._value = float(loss_scale_value)

    def __call__(self) -> Tensor:
        return convert_to_tensor(self._value)

    def update(self, grads: Any) -> tuple[Any, Any]:
        return no_op(), True

    def get_config(self) -> dict[str, Any]:
        return {"loss_scale_value": self._value}

    def __repr__(self) -> str:
        return f"FixedLossScale({self._value})"


class DynamicLossScale(LossScale):
    """A factor as large as gradients allow: smaller after a step with infinite or undefined ones, which is skipped, and
    larger after many without.

    Args:
        initial_loss_scale: to begin with.
        increment_period: steps without such gradients after which the factor grows.
        multiplier: by what it grows and shrinks; it never gets less than 1.
    """

    def __init__(
        self, initial_loss_scale: float = 2**15, increment_period: int = 2000, multiplier: float = 2.0
    ) -> None:
        super().__init__()
        graph: Any = context.get_default_graph()
        if graph.executes:
            raise RuntimeError("DynamicLossScale works in graphs: make it under `tf.Graph().as_default()`.")
        self.initial_loss_scale = float(initial_loss_scale)
        self.increment_period = int(increment_period)
        self.multiplier = float(multiplier)
        self._current = self._add_weight("current_loss_scale", self.initial_loss_scale, dtypes.float32)
        self._good_steps = self._add_weight("good_steps", 0, dtypes.int64)

    def __call__(self) -> Tensor:
        return convert_to_tensor(self._current)

    def update(self, grads: Any) -> tuple[Any, Any]:
        finite = _are_finite(nest.flatten(grads))
        return cond(finite, self._after_good_step, self._after_bad_step), finite

    def _after_good_step(self) -> Any:
        return cond(self._good_steps + 1 >= self.increment_period, self._grow, lambda: _op(self._good_steps, 1))

    def _grow(self) -> Any:
        larger = self._current * self.multiplier
        # At the end of float32 it stays.
        grown = cond(math_ops.is_finite(larger), lambda: self._current.assign(larger, read_value=False), no_op)
        return group(grown, self._good_steps.assign(0, read_value=False))

    def _after_bad_step(self) -> Any:
        smaller = math_ops.maximum(self._current / self.multiplier, 1)
        return group(self._good_steps.assign(0, read_value=False), self._current.assign(smaller, read_value=False))

    def get_config(self) -> dict[str, Any]:
        return {
            "initial_loss_scale": self.initial_loss_scale,
            "increment_period": self.increment_period,
            "multiplier": self.multiplier,
        }

    def __repr__(self) -> str:
        return (
            f"DynamicLossScale(initial_loss_scale={self.initial_loss_scale}, "
            f"increment_period={self.increment_period}, multiplier={self.multiplier})"
        )


def _op(variable: Any, more: int) -> Any:
    return variable.assign_add(more, read_value=False)


def _are_finite(grads: list[Any]) -> Tensor:
    values = (g.values if isinstance(g, IndexedSlices) else g for g in grads if g is not None)
    return math_ops.reduce_all([math_ops.reduce_all(math_ops.is_finite(v)) for v in values])


def loss_scale_of(given: Any) -> LossScale | None:
    """Make a factor of a number, of "dynamic", or of itself; None of None.

    Raises:
        ValueError: it is none of those.
    """
    if isinstance(given, (int, float)):
        return FixedLossScale(given)
    if isinstance(given, str) and given == "dynamic":
        return DynamicLossScale()
    if given is None or isinstance(given, LossScale):
        return given
    raise ValueError(f"Could not interpret loss scale identifier: {given}")
