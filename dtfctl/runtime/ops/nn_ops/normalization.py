"""Moments and normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.nn_ops.common import reduce_over, shape_of
from dtfctl.runtime.ops.operands import apply_mixed, cast_to


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Tensor:
    """Divide values by their L2 norm along axes."""
    axis = axis if axis is not None else dim
    with name_scope(name, "l2_normalize") as scope:
        x = convert_to_tensor(x, name="x")
        axes = _all_axes(x) if axis is None else axis
        square = reduce_over("Sum", apply_mixed("Square", x), axes, True)
        return apply_mixed("Mul", x, apply_mixed("Rsqrt", apply_mixed("Maximum", square, epsilon)), name=scope)


def _all_axes(x: Tensor) -> Any:
    if x.shape.rank is not None:
        return list(range(x.shape.rank))
    return apply_op("Range", start=0, limit=apply_op("Rank", input=x), delta=1)


def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance over `axes`; half is computed in float32."""
    keep = bool(keepdims if keepdims is not None else keep_dims)
    with name_scope(name, "moments"):
        x = convert_to_tensor(x, name="x")
        dtype = x.dtype.base_dtype
        y = apply_op("Cast", x=x, DstT=dtypes.float32) if dtype in (dtypes.float16, dtypes.bfloat16) else x
        mean = reduce_over("Mean", y, axes, True, name="mean")
        held = apply_op("StopGradient", input=mean)
        variance = reduce_over("Mean", apply_op("SquaredDifference", x=y, y=held), axes, True, name="variance")
        if not keep:
            squeezed = [int(a) for a in np.ravel(axes)] if not isinstance(axes, Tensor) else None
            if squeezed is None:
                value = constant_value(axes)
                if value is None:
                    raise ValueError("moments without keep_dims needs axes known while the graph is built")
                squeezed = [int(a) for a in value.reshape(-1)]
            mean = apply_op("Squeeze", input=mean, squeeze_dims=squeezed)
            variance = apply_op("Squeeze", input=variance, squeeze_dims=squeezed)
        return cast_to(mean, dtype), cast_to(variance, dtype)


def sufficient_statistics(
    x: Any,
    axes: Any,
    shift: Any = None,
    keep_dims: bool | None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Count, sum and sum of squares over `axes`, all shifted."""
    keep = bool(keepdims if keepdims is not None else keep_dims)
    axes = sorted({int(a) for a in np.ravel(axes)})
    with name_scope(name, "sufficient_statistics"):
        x = convert_to_tensor(x, name="x")
        dtype = x.dtype.base_dtype
        dims = x.shape.dims_or_none
        if dims is not None and all(dims[a] is not None for a in axes):
            count = constant(float(np.prod([dims[a] for a in axes])), dtype, name="count")
        else:
            picked = apply_op("GatherV2", params=shape_of(x), indices=constant(axes), axis=0)
            count = reduce_over("Prod", apply_op("Cast", x=picked, DstT=dtype), [0], name="count")
        if shift is not None:
            shift = convert_to_tensor(shift, dtype, name="shift")
            centered = apply_mixed("Sub", x, shift)
            squares = apply_op("SquaredDifference", x=x, y=shift)
        else:
            centered, squares = x, apply_mixed("Square", x)
        return (
            count,
            reduce_over("Sum", centered, axes, keep, name="mean_ss"),
            reduce_over("Sum", squares, axes, keep, name="var_ss"),
            shift,
        )


def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Mean and variance from sufficient statistics."""
    with name_scope(name, "normalize"):
        divisor = apply_mixed("Reciprocal", convert_to_tensor(counts), name="divisor")
        if shift is not None:
            shifted = apply_mixed("Mul", mean_ss, divisor, name="shifted_mean")
            mean = apply_mixed("AddV2", shifted, shift, name="mean")
        else:
            shifted = mean = apply_mixed("Mul", mean_ss, divisor, name="mean")
        spread = apply_mixed("Mul", variance_ss, divisor)
        return mean, apply_mixed("Sub", spread, apply_mixed("Square", shifted), name="variance")


def weighted_moments(
    x: Any,
    axes: Any,
    frequency_weights: Any,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Mean and variance with a weight for each element."""
    keep = bool(keepdims if keepdims is not None else keep_dims)
    with name_scope(name, "weighted_moments"):
        x = convert_to_tensor(x, name="x")
        weights = cast_to(convert_to_tensor(frequency_weights, name="frequency_weights"), x.dtype.base_dtype)
        spread = apply_mixed("AddV2", weights, apply_op("ZerosLike", x=x))
        total = reduce_over("Sum", spread, axes, True)
        mean = apply_mixed("RealDiv", reduce_over("Sum", apply_mixed("Mul", weights, x), axes, True), total)
        squares = apply_op("SquaredDifference", x=x, y=mean)
        variance = apply_mixed("RealDiv", reduce_over("Sum", apply_mixed("Mul", weights, squares), axes, True), total)
        if not keep:
            squeezed = [int(a) for a in np.ravel(axes)]
            mean = apply_op("Squeeze", input=mean, squeeze_dims=squeezed)
            variance = apply_op("Squeeze", input=variance, squeeze_dims=squeezed)
        return mean, variance


def batch_normalization(
    x: Any, mean: Any, variance: Any, offset: Any, scale: Any, variance_epsilon: float, name: str | None = None
) -> Tensor:
    """Compute (x - mean) / sqrt(variance + epsilon), scaled and shifted."""
    with name_scope(name, "batchnorm"):
        x = convert_to_tensor(x)
        inverse = apply_mixed("Rsqrt", variance + variance_epsilon)
        if scale is not None:
            inverse = inverse * scale
        dtype = x.dtype.base_dtype
        scaled = x * cast_to(inverse, dtype)
        shift = -mean * inverse if offset is None else offset - mean * inverse
        out: Tensor = scaled + cast_to(shift, dtype)
        return out


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Normalize a batch: output, running mean and running variance.

    Raises:
        ValueError: inference without mean and variance.
    """
    if (not is_training or exponential_avg_factor != 1.0) and (mean is None or variance is None):
        raise ValueError("Both `mean` and `variance` must be given when `is_training` is False")
    x = convert_to_tensor(x, name="input")
    scale = convert_to_tensor(scale, dtypes.float32, name="scale")
    offset = convert_to_tensor(offset, dtypes.float32, name="offset")
    mean = constant([], dtypes.float32) if mean is None else mean
    variance = constant([], dtypes.float32) if variance is None else variance
    # TensorFlow's bound for cuDNN, kept because it changes values.
    epsilon = max(epsilon, 1.001e-5)
    y, running_mean, running_variance, *_ = apply_op_outputs(
        "FusedBatchNormV3",
        x=x,
        scale=scale,
        offset=offset,
        mean=mean,
        variance=variance,
        epsilon=epsilon,
        exponential_avg_factor=exponential_avg_factor,
        data_format=data_format,
        is_training=is_training,
        name=name,
    )
    return y, running_mean, running_variance


def batch_norm_with_global_normalization(
    t: Any = None,
    m: Any = None,
    v: Any = None,
    beta: Any = None,
    gamma: Any = None,
    variance_epsilon: Any = None,
    scale_after_normalization: Any = None,
    name: str | None = None,
    input: Any = None,
    mean: Any = None,
    variance: Any = None,
) -> Tensor:
    """Normalize a batch by given moments, with TF1's older argument order."""
    return batch_normalization(
        t if input is None else input,
        m if mean is None else mean,
        v if variance is None else variance,
        beta,
        gamma if scale_after_normalization else None,
        variance_epsilon,
        name,
    )
