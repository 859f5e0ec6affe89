"""Initializers and regularizers of `tf.contrib.layers`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import (
    GraphKeys,
    add_to_collection,
    get_collection,
    name_scope,
)
from dtfctl.runtime.ops import init_ops, math_ops, nn_ops

Regularizer = Callable[[Any], Any]


def xavier_initializer(uniform: bool = True, seed: int | None = None, dtype: Any = "float32") -> Any:
    """Glorot and Bengio's: uniform, or normal."""
    return init_ops.VarianceScaling(1.0, "fan_avg", "uniform" if uniform else "truncated_normal", seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0, mode: str = "FAN_IN", uniform: bool = False, seed: int | None = None, dtype: Any = "float32"
) -> Any:
    """He's by default: noise of variance `factor` over the number of inputs (FAN_IN), outputs or their mean."""
    return init_ops.VarianceScaling(factor, mode.lower(), "uniform" if uniform else "truncated_normal", seed, dtype)


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """`scale` times half the sum of squares."""

    def charge(weights: Any) -> Any:
        with name_scope(scope, "l2_regularizer") as name:
            return math_ops.multiply(scale, nn_ops.l2_loss(convert_to_tensor(weights)), name=name)

    return charge


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """`scale` times the sum of magnitudes."""

    def charge(weights: Any) -> Any:
        with name_scope(scope, "l1_regularizer") as name:
            size = math_ops.reduce_sum(math_ops.abs(convert_to_tensor(weights)))
            return math_ops.multiply(scale, size, name=name)

    return charge


def sum_regularizer(regularizer_list: Any, scope: str | None = None) -> Regularizer:
    """Add up what several regularizers charge."""

    def charge(weights: Any) -> Any:
        with name_scope(scope, "sum_regularizer"):
            return math_ops.add_n([r(weights) for r in regularizer_list if r is not None])

    return charge


def apply_regularization(regularizer: Regularizer, weights_list: Any = None) -> Any:
    """Sum what a regularizer charges for these (the WEIGHTS collection when None), noted as a loss."""
    weights = get_collection(GraphKeys.WEIGHTS) if weights_list is None else weights_list
    total = math_ops.add_n([regularizer(w) for w in weights])
    add_to_collection(GraphKeys.REGULARIZATION_LOSSES, total)
    return total


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Regularizer:
    """`l1_regularizer` and `l2_regularizer` together."""
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)
