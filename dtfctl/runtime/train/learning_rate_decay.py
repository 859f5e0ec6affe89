"""Learning rates as functions of the global step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import random_ops
from dtfctl.runtime.ops.operands import apply_mixed, cast_to


def _prepare(learning_rate: Any, global_step: Any, decay_steps: Any) -> tuple[Tensor, Tensor, Tensor]:
    if global_step is None:
        raise ValueError("global_step is required.")
    rate = convert_to_tensor(learning_rate, name="learning_rate")
    step = _cast(global_step, rate)
    return rate, step, _cast(decay_steps, rate)


def _cast(value: Any, like: Tensor) -> Tensor:
    return cast_to(value, like.dtype)


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * decay_rate ^ (global_step / decay_steps)."""
    with name_scope(name, "ExponentialDecay") as scope:
        rate, step, steps = _prepare(learning_rate, global_step, decay_steps)
        p = apply_mixed("RealDiv", step, steps)
        p = apply_mixed("Floor", p) if staircase else p
        return apply_mixed("Mul", rate, apply_mixed("Pow", _cast(decay_rate, rate), p, "Pow"), name=scope)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * exp(-decay_rate * global_step / decay_steps)."""
    natural = apply_op("Exp", x=apply_op("Neg", x=decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, natural, staircase, name)


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate / (1 + decay_rate * global_step / decay_steps)."""
    with name_scope(name, "InverseTimeDecay") as scope:
        rate, step, steps = _prepare(learning_rate, global_step, decay_steps)
        p = apply_mixed("RealDiv", step, steps)
        p = apply_mixed("Floor", p) if staircase else p
        return apply_mixed(
            "RealDiv",
            rate,
            apply_mixed("AddV2", _cast(1, rate), apply_mixed("Mul", _cast(decay_rate, rate), p, "Mul"), "Add"),
            scope,
        )


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """(learning_rate - end) * (1 - step / decay_steps) ^ power + end, the step held at `decay_steps`, or cycling."""
    with name_scope(name, "PolynomialDecay") as scope:
        rate, step, steps = _prepare(learning_rate, global_step, decay_steps)
        end = _cast(end_learning_rate, rate)
        if cycle:
            turns = apply_mixed("Ceil", apply_mixed("RealDiv", step, steps))
            zero = _cast(0, rate)
            turns = apply_op("SelectV2", condition=apply_mixed("Equal", step, zero), t=_cast(1, rate), e=turns)
            steps = apply_mixed("Mul", steps, turns)
        else:
            step = apply_mixed("Minimum", step, steps)
        left = apply_mixed("Sub", _cast(1, rate), apply_mixed("RealDiv", step, steps))
        return apply_mixed(
            "AddV2",
            apply_mixed(
                "Mul", apply_mixed("Sub", rate, end), apply_mixed("Pow", left, _cast(power, rate), "Pow"), "Mul"
            ),
            end,
            scope,
        )


def piecewise_constant(x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> Tensor:
    """values[0] up to boundaries[0], values[1] up to boundaries[1], ...

    Raises:
        ValueError: there is not one value more than boundaries.
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    with name_scope(name, "PiecewiseConstant"):
        position = convert_to_tensor(x)
        first = convert_to_tensor(values[0])
        result = _cast(values[-1], first)
        for boundary, value in reversed(list(zip(boundaries, values[:-1]))):
            within = apply_mixed("LessEqual", position, _cast(boundary, position))
            result = apply_op("SelectV2", condition=within, t=_cast(value, first), e=result)
        return result


piecewise_constant_decay = piecewise_constant


def _fraction(step: Tensor, steps: Tensor) -> Tensor:
    return apply_mixed("RealDiv", apply_mixed("Minimum", step, steps), steps)


def _half_cosine(fraction: Tensor) -> Tensor:
    cosine = apply_mixed("Cos", apply_mixed("Mul", _cast(math.pi, fraction), fraction))
    return apply_mixed("Mul", _cast(0.5, fraction), apply_mixed("AddV2", _cast(1, fraction), cosine))


def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: Any = 0.0, name: str | None = None
) -> Tensor:
    """Half a cosine from learning_rate down to alpha * learning_rate (Loshchilov & Hutter, 2016)."""
    with name_scope(name, "CosineDecay"):
        rate, step, steps = _prepare(learning_rate, global_step, decay_steps)
        low = _cast(alpha, rate)
        decayed = apply_mixed(
            "AddV2",
            apply_mixed("Mul", apply_mixed("Sub", _cast(1, rate), low), _half_cosine(_fraction(step, steps))),
            low,
        )
        return apply_mixed("Mul", rate, decayed, "Mul")


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: float = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """Decay the rate by a falling line times a cosine (Bello et al., 2017)."""
    with name_scope(name, "LinearCosineDecay"):
        rate, step, steps = _prepare(learning_rate, global_step, decay_steps)
        fraction = _fraction(step, steps)
        cosine = _half_cosine(apply_mixed("Mul", _cast(2 * num_periods, rate), fraction))
        line = apply_mixed("AddV2", _cast(alpha, rate), apply_mixed("Sub", _cast(1, rate), fraction))
        return apply_mixed("Mul", rate, apply_mixed("AddV2", apply_mixed("Mul", line, cosine), _cast(beta, rate)))


def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: float = 1.0,
    variance_decay: float = 0.55,
    num_periods: float = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """Decay the rate by a falling line, with noise that becomes smaller, times a cosine (Bello et al., 2017)."""
    with name_scope(name, "NoisyLinearCosineDecay"):
        rate, step, steps = _prepare(learning_rate, global_step, decay_steps)
        done = apply_mixed("Minimum", step, steps)
        fraction = apply_mixed("RealDiv", done, steps)
        grown = apply_mixed("Pow", apply_mixed("AddV2", _cast(1, rate), done), _cast(variance_decay, rate), "Pow")
        spread = apply_mixed("Sqrt", apply_mixed("RealDiv", _cast(initial_variance, rate), grown))
        noise = random_ops.random_normal([], stddev=spread)
        cosine = _half_cosine(apply_mixed("Mul", _cast(2 * num_periods, rate), fraction))
        line = apply_mixed("AddV2", _cast(alpha, rate), apply_mixed("Sub", _cast(1, rate), fraction))
        noisy = apply_mixed("AddV2", line, noise)
        return apply_mixed("Mul", rate, apply_mixed("AddV2", apply_mixed("Mul", noisy, cosine), _cast(beta, rate)))


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Half cosines, one after the other (Loshchilov & Hutter, 2016).

    Args:
        first_decay_steps: the length of the first.
        t_mul, m_mul: how much longer, and higher, each is than the one before.
        alpha: the lowest rate as a part of the first.
    """
    with name_scope(name, "SGDRDecay"):
        rate, step, steps = _prepare(learning_rate, global_step, first_decay_steps)
        done = apply_mixed("RealDiv", step, steps)
        if t_mul == 1.0:
            restarts = apply_mixed("Floor", done)
            fraction = apply_mixed("Sub", done, restarts)
        else:
            grown = apply_mixed("Sub", _cast(1, rate), apply_mixed("Mul", done, _cast(1.0 - t_mul, rate)))
            restarts = apply_mixed(
                "Floor", apply_mixed("RealDiv", apply_mixed("Log", grown), _cast(math.log(t_mul), rate))
            )
            length = apply_mixed("Pow", _cast(t_mul, rate), restarts, "Pow")
            begun = apply_mixed("RealDiv", apply_mixed("Sub", _cast(1, rate), length), _cast(1.0 - t_mul, rate))
            fraction = apply_mixed("RealDiv", apply_mixed("Sub", done, begun), length)
        height = apply_mixed("Pow", _cast(m_mul, rate), restarts, "Pow")
        cosine = apply_mixed("Mul", height, _half_cosine(fraction))
        decayed = apply_mixed("AddV2", apply_mixed("Mul", _cast(1 - alpha, rate), cosine), _cast(alpha, rate))
        return apply_mixed("Mul", rate, decayed, "Mul")
