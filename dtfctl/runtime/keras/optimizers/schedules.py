"""`tf.keras.optimizers.schedules`: learning rates as functions of the step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.keras import registry
from dtfctl.runtime.ops import cond, math_ops


class LearningRateSchedule:
    """Base of schedules: called with the step, one returns the learning rate."""

    _arguments: tuple[str, ...] = ()

    def __call__(self, step: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what the rate is: define __call__")

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make it again."""
        return {name: getattr(self, name) for name in self._arguments}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LearningRateSchedule:
        """Make the one that `get_config` described."""
        return cls(**config)


class ExponentialDecay(LearningRateSchedule):
    """initial * rate ^ (step / decay_steps)."""

    _arguments = ("initial_learning_rate", "decay_steps", "decay_rate", "staircase", "name")

    def __init__(
        self,
        initial_learning_rate: Any,
        decay_steps: Any,
        decay_rate: Any,
        staircase: bool = False,
        name: str | None = None,
    ) -> None:
        self.initial_learning_rate, self.decay_steps, self.decay_rate = initial_learning_rate, decay_steps, decay_rate
        self.staircase, self.name = staircase, name

    def __call__(self, step: Any) -> Any:
        initial = convert_to_tensor(self.initial_learning_rate)
        fraction = math_ops.cast(step, initial.dtype) / math_ops.cast(self.decay_steps, initial.dtype)
        if self.staircase:
            fraction = math_ops.floor(fraction)
        return initial * math_ops.pow(math_ops.cast(self.decay_rate, initial.dtype), fraction)


class InverseTimeDecay(ExponentialDecay):
    """initial / (1 + rate * step / decay_steps)."""

    def __call__(self, step: Any) -> Any:
        initial = convert_to_tensor(self.initial_learning_rate)
        fraction = math_ops.cast(step, initial.dtype) / math_ops.cast(self.decay_steps, initial.dtype)
        if self.staircase:
            fraction = math_ops.floor(fraction)
        return initial / (1.0 + math_ops.cast(self.decay_rate, initial.dtype) * fraction)


class PolynomialDecay(LearningRateSchedule):
    """A rate that goes from an initial one to an end, by a power of what is left of `decay_steps`."""

    _arguments = ("initial_learning_rate", "decay_steps", "end_learning_rate", "power", "cycle", "name")

    def __init__(
        self,
        initial_learning_rate: Any,
        decay_steps: Any,
        end_learning_rate: Any = 0.0001,
        power: Any = 1.0,
        cycle: bool = False,
        name: str | None = None,
    ) -> None:
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.end_learning_rate, self.power, self.cycle, self.name = end_learning_rate, power, cycle, name

    def __call__(self, step: Any) -> Any:
        initial = convert_to_tensor(self.initial_learning_rate)
        end, power = math_ops.cast(self.end_learning_rate, initial.dtype), math_ops.cast(self.power, initial.dtype)
        now, total = math_ops.cast(step, initial.dtype), math_ops.cast(self.decay_steps, initial.dtype)
        if self.cycle:
            total = total * math_ops.maximum(1.0, math_ops.ceil(now / total))
        else:
            now = math_ops.minimum(now, total)
        return (initial - end) * math_ops.pow(1.0 - now / total, power) + end


class PiecewiseConstantDecay(LearningRateSchedule):
    """The value of the interval that the step is in; a boundary belongs to the interval that it ends."""

    _arguments = ("boundaries", "values", "name")

    def __init__(self, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> None:
        if len(boundaries) != len(values) - 1:
            raise ValueError("The length of boundaries should be 1 less than the length of values")
        self.boundaries, self.values, self.name = list(boundaries), list(values), name

    def __call__(self, step: Any) -> Any:
        step = convert_to_tensor(step)
        bounds = [math_ops.cast(convert_to_tensor(b), step.dtype.base_dtype) for b in self.boundaries]
        values = [convert_to_tensor(v) for v in self.values]
        pairs: list[Any] = [(step <= bounds[0], lambda: values[0]), (step > bounds[-1], lambda: values[-1])]
        for low, high, v in zip(bounds[:-1], bounds[1:], values[1:-1]):
            pairs.append(((step > low) & (step <= high), lambda v=v: v))
        return cond.case(pairs, lambda: values[0], exclusive=True)


class CosineDecay(LearningRateSchedule):
    """A rate that goes along half a cosine to `alpha` of the initial one, after it has grown if it is to.

    Args:
        warmup_target: what the rate grows to in `warmup_steps` steps, before it decays from there.
    """

    _arguments = ("initial_learning_rate", "decay_steps", "alpha", "name", "warmup_target", "warmup_steps")

    def __init__(
        self,
        initial_learning_rate: Any,
        decay_steps: Any,
        alpha: Any = 0.0,
        name: str | None = None,
        warmup_target: Any = None,
        warmup_steps: Any = 0,
    ) -> None:
        self.initial_learning_rate, self.decay_steps, self.alpha = initial_learning_rate, decay_steps, alpha
        self.name, self.warmup_target, self.warmup_steps = name, warmup_target, warmup_steps

    def __call__(self, step: Any) -> Any:
        initial = convert_to_tensor(self.initial_learning_rate)
        now, total = math_ops.cast(step, initial.dtype), math_ops.cast(self.decay_steps, initial.dtype)

        def decayed(begin: Any, done: Any) -> Any:
            share = 0.5 * (1.0 + math_ops.cos(math.pi * math_ops.minimum(done, total) / total))
            return begin * ((1 - self.alpha) * share + self.alpha)

        if self.warmup_target is None:
            return decayed(initial, now)
        target = math_ops.cast(self.warmup_target, initial.dtype)
        growing = math_ops.cast(self.warmup_steps, initial.dtype)
        return cond.cond(
            now < growing,
            lambda: (target - initial) * (now / growing) + initial,
            lambda: decayed(target, now - growing),
        )


class CosineDecayRestarts(LearningRateSchedule):
    """A rate that goes along half a cosine, over and over: each time `t_mul` times as long, from `m_mul` as much."""

    _arguments = ("initial_learning_rate", "first_decay_steps", "t_mul", "m_mul", "alpha", "name")

    def __init__(
        self,
        initial_learning_rate: Any,
        first_decay_steps: Any,
        t_mul: Any = 2.0,
        m_mul: Any = 1.0,
        alpha: Any = 0.0,
        name: str | None = None,
    ) -> None:
        self.initial_learning_rate, self.first_decay_steps = initial_learning_rate, first_decay_steps
        self.t_mul, self.m_mul, self.alpha, self.name = t_mul, m_mul, alpha, name

    def __call__(self, step: Any) -> Any:
        initial = convert_to_tensor(self.initial_learning_rate)
        longer, less, alpha, first = (
            math_ops.cast(value, initial.dtype)
            for value in (self.t_mul, self.m_mul, self.alpha, self.first_decay_steps)
        )
        done = math_ops.cast(step, initial.dtype) / first

        def even() -> Any:
            times = math_ops.floor(done)
            return [times, done - times]

        def growing() -> Any:
            times = math_ops.floor(math_ops.log(1.0 - done * (1.0 - longer)) / math_ops.log(longer))
            power = math_ops.pow(longer, times)
            return [times, (done - (1.0 - power) / (1.0 - longer)) / power]

        times, share = cond.cond(math_ops.equal(longer, 1.0), even, growing)
        cosine = 0.5 * math_ops.pow(less, times) * (1.0 + math_ops.cos(math.pi * share))
        return initial * ((1 - alpha) * cosine + alpha)


_KINDS = (ExponentialDecay, InverseTimeDecay, PolynomialDecay, PiecewiseConstantDecay, CosineDecay, CosineDecayRestarts)
_OBJECTS: dict[str, Any] = {c.__name__: c for c in _KINDS}


def serialize(schedule: Any) -> Any:
    """Describe a schedule by its class's name and its configuration."""
    return registry.serialize_keras_object(schedule)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """Make the schedule that `serialize` described."""
    return registry.deserialize_keras_object(config, _OBJECTS, custom_objects, "decay")
