"""Sums, products, extrema and means over axes, running ones, and sums of whole tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops
from dtfctl.runtime.ops.math_ops.elementwise import abs, not_equal
from dtfctl.runtime.ops.math_ops.types import cast
from dtfctl.runtime.ops.op_defs.binary import subtract
from dtfctl.runtime.ops.op_defs.elementwise import exp, is_finite, lgamma, log, sqrt, square


def lbeta(x: Any, name: str | None = None) -> Tensor:
    """Compute log|Beta(x)| over the last dimension."""
    with name_scope(name, "lbeta"):
        x = convert_to_tensor(x, name="x")
        return reduce_sum(lgamma(x), axis=[-1]) - lgamma(reduce_sum(x, axis=[-1]))


def _axes(x: Tensor, axis: Any) -> Any:
    if axis is not None:
        return axis
    rank = x.shape.rank
    if rank is not None:
        return constant(np.arange(rank, dtype=np.int32))
    return apply_op("Range", start=0, limit=apply_op("Rank", input=x), delta=1)


def _reduction(op_type: str) -> Callable[..., Tensor]:
    def function(
        input_tensor: Any,
        axis: Any = None,
        keepdims: bool | None = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: bool | None = None,
    ) -> Tensor:
        axis = reduction_indices if axis is None else axis
        keep = bool(keep_dims if keepdims is None else keepdims)
        wanted = dtypes.bool_ if op_type in ("All", "Any") else None
        x = convert_to_tensor(input_tensor, wanted, name="input")
        out = apply_op(op_type, name, input=x, reduction_indices=_axes(x, axis), keep_dims=keep)
        if axis is None and not keep:
            out.set_shape([])
        return out

    function.__name__ = function.__qualname__ = f"reduce_{op_type.lower()}"
    function.__doc__ = f"The {op_type} over axes (all when None)."
    return function


reduce_sum, reduce_prod, reduce_mean = _reduction("Sum"), _reduction("Prod"), _reduction("Mean")
reduce_max, reduce_min = _reduction("Max"), _reduction("Min")
reduce_all, reduce_any = _reduction("All"), _reduction("Any")
_euclidean_norm = _reduction("EuclideanNorm")


def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """Compute the root of the sum of squares over axes (all when None)."""
    return _euclidean_norm(input_tensor, axis, keepdims, name)


def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = dtypes.int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
    input: Any = None,
) -> Tensor:
    """Count the elements that are not zero (not empty, for strings)."""
    axis = reduction_indices if axis is None else axis
    keep = keep_dims if keepdims is None else keepdims
    with name_scope(name, "count_nonzero"):
        x = convert_to_tensor(input if input_tensor is None else input_tensor, name="input")
        zero = constant("" if x.dtype.base_dtype is dtypes.string else x.dtype.as_numpy_dtype(0), x.dtype.base_dtype)
        counted = cast(not_equal(x, zero), dtypes.int64)
        return cast(reduce_sum(counted, axis=axis, keepdims=keep), dtype)


def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Compute log(sum(exp(x))), safe for large x."""

    axis = reduction_indices if axis is None else axis
    keep = bool(keep_dims if keepdims is None else keepdims)
    with name_scope(name, "ReduceLogSumExp") as scope:
        x = convert_to_tensor(input_tensor, name="input")
        top = reduce_max(x, axis=axis, keepdims=True)
        shift = array_ops.stop_gradient(
            apply_op("SelectV2", condition=is_finite(top), t=top, e=array_ops.zeros_like(top))
        )
        result = log(reduce_sum(exp(subtract(x, shift)), axis=axis, keepdims=keep))
        if not keep:
            shift = apply_op("Reshape", tensor=shift, shape=apply_op("Shape", input=result))
        return apply_op("AddV2", scope, x=result, y=shift)


def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Compute the variance over axes (all when None)."""
    with name_scope(name, "reduce_variance"):
        x = convert_to_tensor(input_tensor)
        spread = square(abs(subtract(x, reduce_mean(x, axis=axis, keepdims=True))))
        return reduce_mean(spread, axis=axis, keepdims=keepdims)


def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """Compute the standard deviation over axes (all when None)."""
    with name_scope(name, "reduce_std"):
        return sqrt(reduce_variance(input_tensor, axis=axis, keepdims=keepdims))


def _arg(op_type: str) -> Callable[..., Tensor]:
    def function(
        input: Any,
        axis: Any = None,
        name: str | None = None,
        dimension: Any = None,
        output_type: Any = dtypes.int64,
    ) -> Tensor:
        axis = dimension if axis is None else axis
        return apply_op(op_type, name, input=input, dimension=0 if axis is None else axis, output_type=output_type)

    function.__name__ = function.__qualname__ = op_type.lower()
    return function


argmax, argmin = _arg("ArgMax"), _arg("ArgMin")


def arg_max(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """Find where the largest element along a dimension is."""
    return argmax(input, dimension, name, output_type=output_type)


def arg_min(input: Any, dimension: Any, output_type: Any = dtypes.int64, name: str | None = None) -> Tensor:
    """Find where the smallest element along a dimension is."""
    return argmin(input, dimension, name, output_type=output_type)


def _scan(op_type: str) -> Callable[..., Tensor]:
    def function(
        x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
    ) -> Tensor:
        return apply_op(op_type, name, x=x, axis=axis, exclusive=exclusive, reverse=reverse)

    function.__name__ = function.__qualname__ = op_type.lower()
    return function


cumsum, cumprod, cumulative_logsumexp = _scan("Cumsum"), _scan("Cumprod"), _scan("CumulativeLogsumexp")


def add_n(inputs: Sequence[Any], name: str | None = None) -> Tensor:
    """Add up tensors of one shape."""
    from dtfctl.runtime.framework.gradients import as_dense

    if not inputs or not isinstance(inputs, (list, tuple)):
        raise ValueError(
            "Inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype and shape."
        )
    tensors = [as_dense(t) if isinstance(t, IndexedSlices) else convert_to_tensor(t) for t in inputs]
    if len(tensors) == 1:
        return apply_op("Identity", name, input=tensors[0]) if name else tensors[0]
    return apply_op("AddN", name, inputs=tensors)


def accumulate_n(inputs: Sequence[Any], shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """Add up tensors, like `add_n`."""
    tensors = [convert_to_tensor(t, tensor_dtype) for t in inputs]
    if len(tensors) == 1 and name is None:
        return tensors[0]
    return add_n(tensors, name=name)
