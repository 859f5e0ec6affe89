"""Normalization of batches with averages that move while training: what `tf.layers` and `tf.keras` have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import math_ops, nn_ops, state_ops
from dtfctl.runtime.ops.cond import smart_cond

_HALF = (dtypes.float16, dtypes.bfloat16)
_WIRES = {(4, 1): "NCHW", (4, 3): "NHWC", (5, 1): "NCDHW", (5, 4): "NDHWC"}


def can_be_fused(rank: int, axis: int, dtype: Any, fused: bool | None) -> bool:
    """Say whether one op normalizes such inputs."""
    return fused is not False and (rank, axis) in _WIRES and dtype.base_dtype is not dtypes.float64


def normalize_batch(
    x: Tensor,
    axis: int,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_variance: Any,
    epsilon: float,
    momentum: float,
    training: Any,
    fused: bool,
    add_update: Callable[[Any], None],
) -> Tensor:
    """Normalize a batch by its own moments while training, by the averages otherwise.

    Args:
        axis: that of the channels, not negative.
        gamma, beta: variables, or None.
        training: a bool, or a tensor that says it in each step.
        fused: whether one op does all (`can_be_fused`).
        add_update: is given the ops that move the averages.
    """
    make = _fused if fused else _plain
    out = make(x, axis, gamma, beta, moving_mean, moving_variance, epsilon, momentum, training, add_update)
    out.set_shape(x.shape)
    return out


def _known(training: Any) -> bool | None:
    value = training if isinstance(training, (bool, int)) else constant_value(convert_to_tensor(training))
    return None if value is None else bool(value)


def _fused(
    x: Tensor,
    axis: int,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_variance: Any,
    epsilon: float,
    momentum: float,
    training: Any,
    add_update: Callable[[Any], None],
) -> Tensor:
    size = x.shape[axis].value
    offset = constant(0.0, dtypes.float32, [size]) if beta is None else beta
    scale = constant(1.0, dtypes.float32, [size]) if gamma is None else gamma

    def normalized(is_training: bool) -> Any:
        return nn_ops.fused_batch_norm(
            x,
            scale,
            offset,
            mean=moving_mean,
            variance=moving_variance,
            epsilon=epsilon,
            data_format=_WIRES[x.shape.rank or 0, axis],
            is_training=is_training,
        )

    out: Tensor
    out, mean, variance = smart_cond(training, lambda: normalized(True), lambda: normalized(False))
    if _known(training) is not False:
        kept = smart_cond(training, lambda: constant(momentum), lambda: constant(1.0))
        add_update(_moved(moving_mean, mean, lambda: 1.0 - kept))
        add_update(_moved(moving_variance, variance, lambda: 1.0 - kept))
    return out


def _plain(
    x: Tensor,
    axis: int,
    gamma: Any,
    beta: Any,
    moving_mean: Any,
    moving_variance: Any,
    epsilon: float,
    momentum: float,
    training: Any,
    add_update: Callable[[Any], None],
) -> Tensor:
    given = x.dtype.base_dtype
    x = math_ops.cast(x, dtypes.float32) if given in _HALF else x
    rank = x.shape.rank or 0
    axes = [i for i in range(rank) if i != axis]
    shape = [x.shape[i].value if i == axis else 1 for i in range(rank)]

    def wide(v: Any) -> Any:
        return v if v is None or axes == list(range(rank - 1)) else apply_op("Reshape", tensor=v, shape=shape)

    scale, offset = wide(gamma), wide(beta)
    mean, variance = moving_mean, moving_variance
    if _known(training) is not False:
        batch_mean, batch_variance = nn_ops.moments(x, axes)
        mean = smart_cond(training, lambda: batch_mean, lambda: convert_to_tensor(moving_mean))
        variance = smart_cond(training, lambda: batch_variance, lambda: convert_to_tensor(moving_variance))
        for moving, batch in ((moving_mean, mean), (moving_variance, variance)):
            add_update(_moved_in_training(moving, batch, momentum, training))
    out = nn_ops.batch_normalization(x, wide(mean), wide(variance), offset, scale, epsilon)
    return math_ops.cast(out, given)


def _moved_in_training(variable: Any, value: Tensor, momentum: float, training: Any) -> Any:
    def move() -> Any:
        return _moved(variable, value, lambda: convert_to_tensor(1.0 - momentum, name="decay"))

    return smart_cond(training, move, lambda: convert_to_tensor(variable))


def _moved(variable: Any, value: Any, rate: Callable[[], Any]) -> Any:
    """Move an average towards a value; `rate` makes how far in the update's name scope."""
    with name_scope("AssignMovingAvg") as scope, context.get_default_graph().colocate_with(variable.op):
        dtype = variable.dtype.base_dtype
        decay = math_ops.cast(rate(), dtype)
        return state_ops.assign_sub(variable, (variable - math_ops.cast(value, dtype)) * decay, name=scope)
