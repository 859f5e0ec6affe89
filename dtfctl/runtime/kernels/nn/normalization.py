"""Batch and local response normalization with gradients (fused_batch_norm_op, lrn_op, batch_norm_op)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.compiled.jit import compiled, loops
from dtfctl.runtime.kernels.nn.common import low_in_float32, shape_text
from dtfctl.runtime.kernels.registry import CPU_GPU, FLOATS, Kernel, KernelBuild, register_kernel

_SMALL_FLOATS = (dtypes.bfloat16, dtypes.float16, dtypes.float32)


def _axis(k: KernelBuild, rank: int) -> int:
    return 1 if k.text_attr("data_format", "NHWC") in ("NCHW", "NCDHW") else rank - 1


def _along(vector: Any, axis: int, rank: int) -> Any:
    """Shape a channel vector to broadcast against the data."""
    return vector if axis == rank - 1 else vector.reshape((-1,) + (1,) * (rank - 1 - axis))


def _check(k: KernelBuild, x: Any, vectors: dict[str, Any], five: bool) -> int:
    if x.ndim != 4 and not (five and x.ndim == 5):
        raise InvalidArgumentError(f"input must be {'4 or 5' if five else '4'}-dimensional{shape_text(x.shape)}")
    axis = _axis(k, x.ndim)
    for name, vector in vectors.items():
        if vector.ndim != 1:
            raise InvalidArgumentError(f"{name} must be 1-dimensional{shape_text(vector.shape)}")
        if vector.shape[0] != x.shape[axis]:
            raise InvalidArgumentError(
                f"{name} must have the same number of elements as the channels of x, got {vector.shape[0]} and "
                f"{x.shape[axis]}"
            )
    return axis


def _is_loops(xp: Any, x: Any, axis: int) -> bool:
    """Tell whether compiled loops go through the data instead of numpy's passes: large data with channels last."""
    return xp is np and axis == x.ndim - 1 and compiled(loops.normalize, x.dtype, x.nbytes) is not None


def _loop(loop: Callable[..., None], x: Any) -> Callable[..., None]:
    found = compiled(loop, x.dtype, x.nbytes)
    assert found is not None, "asked for only where `_is_loops`"
    return found


def _rows(x: Any) -> Any:
    """Flatten data to a row for each position, a column for each channel."""
    return np.ascontiguousarray(x).reshape(-1, x.shape[-1])


def _normalized(x: Any, mean: Any, factor: Any, offset: Any) -> Any:
    y = np.empty(x.shape, x.dtype)
    _loop(loops.normalize, x)(_rows(x), mean, factor, offset, _rows(y))
    return y


@register_kernel("FusedBatchNorm", devices=CPU_GPU, T=(dtypes.float32,))
@register_kernel(("FusedBatchNormV2", "FusedBatchNormV3"), devices=CPU_GPU, T=_SMALL_FLOATS)
def fused_batch_norm(k: KernelBuild) -> Kernel:
    xp, dtype = k.xp, k.dtype("T").np
    epsilon = np.float32(k.attr("epsilon", 1e-4))
    factor = np.float32(k.attr("exponential_avg_factor", 1.0))
    training, third = k.attr("is_training", True), k.node.op == "FusedBatchNormV3"
    rest = (xp.zeros((), np.float32),) if third else ()

    def kernel(x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> tuple[Any, ...]:
        axis = _check(k, x, {"scale": scale, "offset": offset}, third)
        if not training or factor != 1:
            _check(k, x, {"estimated_mean": mean, "estimated_variance": variance}, third)
        elif mean.size not in (0, scale.size):
            raise InvalidArgumentError(
                f"When is_training=true, mean must be empty or have {scale.size} elements, got {shape_text(mean.shape)}"
            )
        rank = x.ndim
        axes = tuple(i for i in range(rank) if i != axis)
        wide = x.astype(np.float32, copy=False)
        if x.size == 0:
            empty = xp.full(scale.shape, xp.nan, np.float32)
            return (x, empty, empty, empty, empty, *rest)
        if not training:
            inverse = scale / xp.sqrt(variance + epsilon)
            if _is_loops(xp, wide, axis):
                y = _normalized(wide, mean, inverse, offset)
            else:
                y = (wide - _along(mean, axis, rank)) * _along(inverse, axis, rank) + _along(offset, axis, rank)
            return (y.astype(dtype, copy=False), mean, variance, mean, variance, *rest)
        count = wide.size // wide.shape[axis]
        if _is_loops(xp, wide, axis):
            batch_mean, batch_variance = np.empty_like(scale), np.empty_like(scale)
            _loop(loops.moments, wide)(_rows(wide), batch_mean, batch_variance, np.empty_like(scale))
            y = _normalized(wide, batch_mean, scale / np.sqrt(batch_variance + epsilon), offset)
        else:
            batch_mean = wide.mean(axis=axes, dtype=np.float32)
            y = wide - _along(batch_mean, axis, rank)
            batch_variance = xp.square(y).mean(axis=axes, dtype=np.float32)
            y *= _along(scale / xp.sqrt(batch_variance + epsilon), axis, rank)
            y += _along(offset, axis, rank)
        unbiased = batch_variance * np.float32(count / max(count - 1, 1))
        running_mean, running_variance = batch_mean, unbiased
        if factor != 1:
            running_mean = (1 - factor) * mean + factor * batch_mean
            running_variance = (1 - factor) * variance + factor * unbiased
        return (
            y.astype(dtype, copy=False),
            running_mean,
            running_variance,
            batch_mean,
            batch_variance,
            *rest,
        )

    return kernel


@register_kernel("FusedBatchNormGrad", devices=CPU_GPU, T=(dtypes.float32,))
@register_kernel(("FusedBatchNormGradV2", "FusedBatchNormGradV3"), devices=CPU_GPU, T=_SMALL_FLOATS)
def fused_batch_norm_grad(k: KernelBuild) -> Kernel:
    xp, dtype = k.xp, k.dtype("T").np
    epsilon = np.float32(k.attr("epsilon", 1e-4))
    training, third = k.attr("is_training", True), k.node.op == "FusedBatchNormGradV3"

    def kernel(
        y_backprop: Any, x: Any, scale: Any, reserve_1: Any, reserve_2: Any, reserve_3: Any = None
    ) -> tuple[Any, ...]:
        if y_backprop.shape != x.shape:
            raise InvalidArgumentError(
                f"x and y_backprop must have same shape, but x has shape {shape_text(x.shape)} and y_backprop has "
                f"shape {shape_text(y_backprop.shape)}"
            )
        axis = _check(k, x, {"scale": scale, "mean": reserve_1, "variance": reserve_2}, third)
        nothing = xp.zeros(0, np.float32)
        if x.size == 0:
            zeros = xp.zeros(scale.shape, np.float32)
            return x, zeros, zeros, nothing, nothing
        rank = x.ndim
        axes = tuple(i for i in range(rank) if i != axis)
        dy, wide = y_backprop.astype(np.float32, copy=False), x.astype(np.float32, copy=False)
        inverse = 1 / xp.sqrt(reserve_2 + epsilon)
        count = np.float32(wide.size // wide.shape[axis])
        if _is_loops(xp, wide, axis):
            dy, wide = np.ascontiguousarray(dy), np.ascontiguousarray(wide)
            offset_backprop, dy_centered = np.empty_like(scale), np.empty_like(scale)
            room = np.empty_like(scale), np.empty_like(scale)
            _loop(loops.normalization_sums, wide)(
                _rows(dy), _rows(wide), reserve_1, offset_backprop, dy_centered, *room
            )
        else:
            centered = wide - _along(reserve_1, axis, rank)
            offset_backprop = dy.sum(axis=axes, dtype=np.float32)
            dy_centered = (dy * centered).sum(axis=axes, dtype=np.float32)
        scale_backprop = dy_centered * inverse
        if not training:
            x_backprop = dy * _along(scale * inverse, axis, rank)
        else:
            slope, level = -inverse * inverse * dy_centered / count, offset_backprop / count
            if _is_loops(xp, wide, axis):
                x_backprop = np.empty_like(wide)
                gradient = _loop(loops.normalization_gradient, wide)
                gradient(_rows(dy), _rows(wide), reserve_1, slope, level, scale * inverse, _rows(x_backprop))
            else:
                centered *= _along(slope, axis, rank)
                centered += dy
                centered -= _along(level, axis, rank)
                centered *= _along(scale * inverse, axis, rank)
                x_backprop = centered
        return x_backprop.astype(dtype, copy=False), scale_backprop, offset_backprop, nothing, nothing

    return kernel


def _band(depth: int, radius: int, dtype: np.dtype[Any]) -> Any:
    positions = np.arange(depth)
    return (np.abs(positions[:, None] - positions) <= radius).astype(dtype)


@register_kernel("LRN", T=_SMALL_FLOATS)
def lrn(k: KernelBuild) -> Kernel:
    radius, bias = k.attr("depth_radius", 5), np.float32(k.attr("bias", 1.0))
    alpha, beta = np.float32(k.attr("alpha", 1.0)), np.float32(k.attr("beta", 0.5))

    def function(x: Any) -> Any:
        if x.ndim != 4:
            raise InvalidArgumentError("in must be 4-dimensional")
        band = _band(x.shape[-1], radius, x.dtype)
        norm = bias + alpha * np.matmul(np.square(x), band)
        return x * norm**-beta

    return low_in_float32(k.dtype("T").np, function)


@register_kernel("LRNGrad", T=_SMALL_FLOATS)
def lrn_grad(k: KernelBuild) -> Kernel:
    radius, bias = k.attr("depth_radius", 5), np.float32(k.attr("bias", 1.0))
    alpha, beta = np.float32(k.attr("alpha", 1.0)), np.float32(k.attr("beta", 0.5))

    def function(grad: Any, x: Any, y: Any) -> Any:
        if grad.ndim != 4 or x.ndim != 4:
            raise InvalidArgumentError("inputs must be 4-dimensional")
        if grad.shape != x.shape or x.shape != y.shape:
            raise InvalidArgumentError("input_grads, input_image, and out_image should have the same shape")
        band = _band(x.shape[-1], radius, x.dtype)
        norm = bias + alpha * np.matmul(np.square(x), band)
        return grad * norm**-beta - 2 * alpha * beta * x * np.matmul(grad * y / norm, band)

    return low_in_float32(k.dtype("T").np, function)


@register_kernel("BatchNormWithGlobalNormalization", T=FLOATS)
def batch_norm_global(k: KernelBuild) -> Kernel:
    epsilon, scaled = k.attr("variance_epsilon"), k.attr("scale_after_normalization")

    def function(t: Any, m: Any, v: Any, beta: Any, gamma: Any) -> Any:
        _check_global(t, (m, v, beta, gamma))
        factor = 1 / np.sqrt(v + t.dtype.type(epsilon))
        return (t - m) * (factor * gamma if scaled else factor) + beta

    return low_in_float32(k.dtype("T").np, function)


@register_kernel("BatchNormWithGlobalNormalizationGrad", T=FLOATS)
def batch_norm_global_grad(k: KernelBuild) -> Kernel:
    epsilon, scaled = k.attr("variance_epsilon"), k.attr("scale_after_normalization")

    def function(t: Any, m: Any, v: Any, gamma: Any, grad: Any) -> tuple[Any, ...]:
        _check_global(t, (m, v, gamma))
        axes = (0, 1, 2)
        inverse = 1 / np.sqrt(v + t.dtype.type(epsilon))
        centered = t - m
        d_beta = grad.sum(axis=axes)
        d_gamma = (grad * centered * inverse).sum(axis=axes) if scaled else np.zeros_like(gamma)
        weight = inverse * gamma if scaled else inverse
        scaled_sum = (grad * centered).sum(axis=axes)
        d_v = scaled_sum * (gamma if scaled else 1) * t.dtype.type(-0.5) * inverse**3
        return grad * weight, -d_beta * weight, d_v, d_beta, d_gamma

    return low_in_float32(k.dtype("T").np, function)


def _check_global(t: Any, vectors: tuple[Any, ...]) -> None:
    if t.ndim != 4:
        raise InvalidArgumentError(f"input must be 4-dimensional{shape_text(t.shape)}")
    for vector in vectors:
        if vector.shape != t.shape[-1:]:
            raise InvalidArgumentError(
                f"parameters must be 1-dimensional of the input's depth, got {shape_text(vector.shape)}"
            )
