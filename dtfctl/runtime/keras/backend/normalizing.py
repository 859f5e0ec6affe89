"""Normalization by mean and variance."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, nn_ops


def _vector(x: Any) -> Any:
    return array_ops.reshape(x, [-1]) if x.shape.ndims is not None and x.shape.ndims > 1 else x


def batch_normalization(
    x: Any, mean: Any, var: Any, beta: Any, gamma: Any, axis: int = -1, epsilon: float = 1e-3
) -> Tensor:
    """Normalize by a mean and variance that are known, then scale by gamma and shift by beta."""
    if x.shape.ndims != 4 or axis % 4 not in (1, 3):
        return nn_ops.batch_normalization(x, mean, var, beta, gamma, epsilon)
    mean, var = _vector(mean), _vector(var)
    beta = array_ops.zeros_like(mean) if beta is None else _vector(beta)
    gamma = array_ops.ones_like(mean) if gamma is None else _vector(gamma)
    return nn_ops.fused_batch_norm(
        x,
        gamma,
        beta,
        mean,
        var,
        epsilon,
        data_format="NHWC" if axis % 4 == 3 else "NCHW",
        is_training=False,
    )[0]


def normalize_batch_in_training(
    x: Any, gamma: Any, beta: Any, reduction_axes: Any, epsilon: float = 1e-3
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize by the mean and variance of these axes: (what is normalized, the mean, the variance)."""
    axes, rank = sorted(reduction_axes), x.shape.ndims
    if rank == 4 and axes in ([0, 1, 2], [0, 2, 3]):
        channels = x.shape[6 - sum(axes)]
        ones = array_ops.ones([channels], x.dtype) if gamma is None else gamma
        zeros = array_ops.zeros([channels], x.dtype) if beta is None else beta
        data_format = "NHWC" if axes == [0, 1, 2] else "NCHW"
        return nn_ops.fused_batch_norm(x, ones, zeros, epsilon=epsilon, data_format=data_format)
    mean, var = nn_ops.moments(x, axes)
    parts: list[Any] = [mean, var, beta, gamma]
    if axes != list(range(rank - 1)):
        sizes = array_ops.stack([1 if i in axes else array_ops.shape(x)[i] for i in range(rank)])
        parts = [None if p is None else array_ops.reshape(p, sizes) for p in parts]
    middle, spread, shift, scale = parts
    return nn_ops.batch_normalization(x, middle, spread, shift, scale, epsilon), mean, var
