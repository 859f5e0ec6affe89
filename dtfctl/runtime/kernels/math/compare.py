"""Comparisons, selection by a condition, clipping."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.admission import MOST_UNSEEN, admit_broadcast
from dtfctl.runtime.kernels.array.common import text
from dtfctl.runtime.kernels.math.binary import checked
from dtfctl.runtime.kernels.promises import OF_SHAPES, Promises, ShapeFrom
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel

for _op, _name in {
    "Greater": "greater",
    "GreaterEqual": "greater_equal",
    "Less": "less",
    "LessEqual": "less_equal",
}.items():

    @register_kernel(_op, devices=CPU_GPU, promises=OF_SHAPES)
    def _ordering(k: KernelBuild, name: str = _name) -> Kernel:
        return checked(getattr(k.xp, name), item_bytes=1)


@register_kernel(("Equal", "NotEqual"), devices=CPU_GPU, promises=OF_SHAPES)
def _equality(k: KernelBuild) -> Kernel:
    """Compare elements; with incompatible_shape_error=False, arguments that do not broadcast are simply not equal."""
    same = k.node.op == "Equal"
    xp = k.xp_for("T")
    function = xp.equal if same else xp.not_equal
    if k.dtype("T").is_object:
        plain = function

        def function(x: Any, y: Any) -> Any:
            return np.asarray(plain(x, y), np.bool_)

    if k.attr("incompatible_shape_error", True):
        return checked(function, item_bytes=1)
    answer = np.array(not same)

    def kernel(x: Any, y: Any) -> Any:
        if x.size * y.size > MOST_UNSEEN and x.shape != y.shape:
            admit_broadcast(x, y, item_bytes=1)
        try:
            return function(x, y)
        except ValueError:
            return answer

    return kernel


@register_kernel("ApproximateEqual", devices=CPU_GPU)
def _approximate_equal(k: KernelBuild) -> Kernel:
    tolerance = k.attr("tolerance")

    def kernel(x: Any, y: Any) -> Any:
        if x.shape != y.shape:
            raise InvalidArgumentError(
                f"x and y must be of the same shape. x shape: {text(x.shape)}. y shape: {text(y.shape)}"
            )
        limit = np.asarray(tolerance).astype(x.real.dtype)[()]
        return k.xp.absolute(x - y) < limit

    return kernel


@register_kernel("SelectV2", devices=CPU_GPU)
def _select_v2(k: KernelBuild) -> Kernel:
    where = k.xp.where

    def kernel(condition: Any, t: Any, e: Any) -> Any:
        if condition.size * t.size * e.size > MOST_UNSEEN and not condition.shape == t.shape == e.shape:
            admit_broadcast(condition, t, e)
        try:
            return where(condition, t, e)
        except ValueError:
            raise InvalidArgumentError(
                f"condition {text(condition.shape)}, then {text(t.shape)}, and else {text(e.shape)} must be "
                "broadcastable"
            ) from None

    return kernel


@register_kernel("Select", devices=CPU_GPU)
def _select(k: KernelBuild) -> Kernel:
    """Choose between two tensors; the condition is a scalar, has their shape, or is a vector that picks rows."""
    where = k.xp.where

    def kernel(condition: Any, t: Any, e: Any) -> Any:
        if t.shape != e.shape:
            raise InvalidArgumentError(
                f"'then' and 'else' must have the same size.  but received: {text(t.shape)} vs. {text(e.shape)}"
            )
        if condition.shape == t.shape:
            return where(condition, t, e)
        if condition.ndim == 0:
            return t if condition else e
        if condition.ndim != 1:
            raise InvalidArgumentError(
                f"'cond' must be a vector, but saw shape: {text(condition.shape)}"
                if t.ndim == 0 or condition.ndim != t.ndim
                else f"'cond' must be a scalar or have the shape of 'then': {text(condition.shape)} vs. {text(t.shape)}"
            )
        if t.ndim < 1:
            raise InvalidArgumentError("'then' must be at least a vector, but saw shape: []")
        if t.shape[0] != condition.shape[0]:
            raise InvalidArgumentError(
                f"Number of batches of 'then' must match size of 'cond', but saw: {t.shape[0]} vs. {condition.shape[0]}"
            )
        return where(condition.reshape(-1, *(1,) * (t.ndim - 1)), t, e)

    return kernel


@register_kernel("ClipByValue", devices=CPU_GPU)
def _clip_by_value(k: KernelBuild) -> Kernel:
    xp, is_complex = k.xp, k.dtype("T").is_complex

    def kernel(t: Any, low: Any, high: Any) -> Any:
        if not ((low.ndim == 0 or low.shape == t.shape) and (high.ndim == 0 or high.shape == t.shape)):
            raise InvalidArgumentError(
                "clip_value_min and clip_value_max must be either of the same shape as input, or a scalar. "
                f"input shape: {text(t.shape)}clip_value_min shape: {text(low.shape)}"
                f"clip_value_max shape: {text(high.shape)}"
            )
        return clip(t, low, high)

    def clip(t: Any, low: Any, high: Any) -> Any:
        if not is_complex:
            return clip_real(t, low, high)
        out = xp.empty(t.shape, t.dtype)
        out.real, out.imag = clip_real(t.real, low.real, high.real), clip_real(t.imag, low.imag, high.imag)
        return out

    def clip_real(t: Any, low: Any, high: Any) -> Any:
        return xp.maximum(xp.minimum(t, high), low)

    return kernel


_BY_DIMENSION = Promises(lets_go=True, shape_from=ShapeFrom(("dimension",)))


@register_kernel(("ArgMax", "ArgMin"), devices=CPU_GPU, host_inputs=("dimension",), promises=_BY_DIMENSION)
def _arg(k: KernelBuild) -> Kernel:
    out = k.dtype("output_type").np
    function = k.xp.argmax if k.node.op == "ArgMax" else k.xp.argmin
    is_float = k.dtype("T").is_floating
    worst = -np.inf if k.node.op == "ArgMax" else np.inf

    def kernel(x: Any, dimension: Any) -> Any:
        if dimension.ndim != 0:
            raise InvalidArgumentError(f"dim must be a scalar, but received tensor of shape: {text(dimension.shape)}")
        axis = int(dimension)
        if not -x.ndim <= axis < x.ndim:
            raise InvalidArgumentError(f"Expected dimension in the range [{-x.ndim}, {x.ndim}), but got {axis}")
        if x.shape[axis] == 0:
            raise InvalidArgumentError(f"Reduction axis {axis % x.ndim} is empty in shape {text(x.shape)}")
        if is_float:
            # TensorFlow's comparison never picks a NaN.
            nan = k.xp.isnan(x)
            if nan.any():
                x = k.xp.where(nan, x.dtype.type(worst), x)
        return function(x, axis=axis).astype(out)

    return kernel
