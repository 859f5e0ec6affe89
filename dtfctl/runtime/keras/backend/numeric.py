"""Numbers of tensors: reductions, products, choices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.gradients import gradients as compute_gradients
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.keras.backend.settings import floatx
from dtfctl.runtime.ops import array_ops, clip_ops, math_ops, nn_ops
from dtfctl.runtime.ops.cond import cond


def _reduction(function: Callable[..., Any], doc: str) -> Callable[..., Tensor]:
    def reduced(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
        if getattr(x, "dtype", None) is not None and as_dtype(x.dtype).base_dtype is dtypes.bool_:
            x = math_ops.cast(x, as_dtype(floatx()))
        result: Tensor = function(x, axis=axis, keepdims=keepdims)
        return result

    reduced.__doc__ = doc
    return reduced


sum = _reduction(math_ops.reduce_sum, "Sum along axes.")
mean = _reduction(math_ops.reduce_mean, "Average along axes.")
max = _reduction(math_ops.reduce_max, "Find the largest along axes.")
min = _reduction(math_ops.reduce_min, "Find the smallest along axes.")
prod = _reduction(math_ops.reduce_prod, "Multiply along axes.")
std = _reduction(math_ops.reduce_std, "Compute the standard deviation along axes.")
var = _reduction(math_ops.reduce_variance, "Compute the variance along axes.")
logsumexp = _reduction(math_ops.reduce_logsumexp, "Compute log(sum(exp(x))) along axes.")
abs, exp, sign, square, sin, cos = (
    math_ops.abs,
    math_ops.exp,
    math_ops.sign,
    math_ops.square,
    math_ops.sin,
    math_ops.cos,
)
log, maximum, minimum, round = math_ops.log, math_ops.maximum, math_ops.minimum, math_ops.round
equal, not_equal, greater, greater_equal = math_ops.equal, math_ops.not_equal, math_ops.greater, math_ops.greater_equal
less, less_equal, sigmoid, tanh = math_ops.less, math_ops.less_equal, math_ops.sigmoid, math_ops.tanh
softplus, softsign, elu_, pow = nn_ops.softplus, nn_ops.softsign, nn_ops.elu, math_ops.pow


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Tell whether one is true, along axes."""
    return math_ops.reduce_any(math_ops.cast(x, dtypes.bool_), axis=axis, keepdims=keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Tell whether all are true, along axes."""
    return math_ops.reduce_all(math_ops.cast(x, dtypes.bool_), axis=axis, keepdims=keepdims)


def sqrt(x: Any) -> Tensor:
    """Compute the square root; of what is negative, zero."""
    x = convert_to_tensor(x)
    return math_ops.sqrt(clip_ops.clip_by_value(x, 0.0, float("inf")))


def clip(x: Any, min_value: Any, max_value: Any) -> Tensor:
    """Cut values to a range."""
    if isinstance(max_value, (int, float)) and isinstance(min_value, (int, float)) and max_value < min_value:
        max_value = min_value
    low = -np.inf if min_value is None else min_value
    clipped: Tensor = clip_ops.clip_by_value(x, low, np.inf if max_value is None else max_value)
    return clipped


def argmax(x: Any, axis: int = -1) -> Tensor:
    """Find where the largest is."""
    return math_ops.argmax(x, axis)


def argmin(x: Any, axis: int = -1) -> Tensor:
    """Find where the smallest is."""
    return math_ops.argmin(x, axis)


def cumsum(x: Any, axis: int = 0) -> Tensor:
    """Sum up along an axis."""
    return math_ops.cumsum(x, axis=axis)


def cumprod(x: Any, axis: int = 0) -> Tensor:
    """Multiply up along an axis."""
    return math_ops.cumprod(x, axis=axis)


def dot(x: Any, y: Any) -> Tensor:
    """Multiply matrices; of higher ranks, the last axis of x with the last but one of y."""
    x, y = convert_to_tensor(x), convert_to_tensor(y)
    if (x.shape.rank or 0) <= 2 and y.shape.rank == 2:
        return math_ops.matmul(x, y)
    y_rank = y.shape.rank or 0
    axes: Any = [[-1 % (x.shape.rank or 1)], [(y_rank - 2) if y_rank > 1 else 0]]
    return math_ops.tensordot(x, y, axes)


def batch_dot(x: Any, y: Any, axes: Any = None) -> Tensor:
    """Multiply matrices example by example, over one axis of each."""
    x_rank, y_rank = x.shape.rank, y.shape.rank
    if axes is None:
        axes = [1, 1] if y_rank == 2 else [x_rank - 1, y_rank - 2]
    first, second = (axes, axes) if isinstance(axes, int) else axes
    first, second = first % x_rank, second % y_rank
    a = array_ops.expand_dims(x, 1) if x_rank == 2 else x
    b = array_ops.expand_dims(y, 2) if y_rank == 2 else y
    if a.shape.rank != 3 or b.shape.rank != 3:
        raise NotImplementedError("tf.keras.backend.batch_dot: ranks 2 and 3; use tf.einsum")
    out = math_ops.matmul(a, b, transpose_a=x_rank == 3 and first == 1, transpose_b=y_rank == 3 and second == 2)
    if y_rank == 2:
        out = array_ops.squeeze(out, [2])
    if x_rank == 2:
        out = array_ops.squeeze(out, [1])
    return array_ops.expand_dims(out, 1) if out.shape.rank == 1 else out


def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """Choose by a scalar, computing only what is chosen; element by element by a tensor."""
    if condition.shape.rank in (0, None):
        first, second = (e if callable(e) else (lambda e=e: e) for e in (then_expression, else_expression))
        return cond(math_ops.cast(condition, dtypes.bool_), first, second)
    chosen = [e() if callable(e) else e for e in (then_expression, else_expression)]
    extra = chosen[0].shape.rank - condition.shape.rank
    for _ in range(extra):
        condition = array_ops.expand_dims(condition, -1)
    return array_ops.where_v2(math_ops.cast(condition, dtypes.bool_), chosen[0], chosen[1])


def gradients(loss: Any, variables: Any) -> list[Any]:
    """Compute the gradients of a loss."""
    return compute_gradients(loss, variables)
