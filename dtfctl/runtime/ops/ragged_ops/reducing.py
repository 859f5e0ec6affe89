"""Sums, means, extrema and others over the dimensions of ragged tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.op_defs.elementwise import exp, log, sqrt, square
from dtfctl.runtime.ops.ragged_ops.broadcasting import broadcast_together, map_flat_values
from dtfctl.runtime.ops.ragged_ops.conversion import positive_axis
from dtfctl.runtime.ops.ragged_ops.dimensions import expand_dims
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor

Segments = Callable[[Any, Any, Any], Any]


def _segment_all(data: Tensor, ids: Any, count: Any) -> Tensor:
    return math_ops.cast(math_ops.unsorted_segment_prod(math_ops.cast(data, dtypes.int32), ids, count), dtypes.bool_)


def _segment_any(data: Tensor, ids: Any, count: Any) -> Tensor:
    return math_ops.cast(math_ops.unsorted_segment_sum(math_ops.cast(data, dtypes.int32), ids, count), dtypes.bool_)


def segment(reduce: Segments, data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Reduce the rows of a ragged tensor that have the same number: their first values, their second ones and so on."""
    with name_scope(name, "RaggedSegment"):
        rows = convert_to_tensor_or_ragged_tensor(data, name="data")
        ids = convert_to_tensor_or_ragged_tensor(segment_ids, name="segment_ids")
        count = math_ops.cast(convert_to_tensor(num_segments), ids.dtype.base_dtype)
        if isinstance(ids, RaggedTensor):
            if not isinstance(rows, RaggedTensor):
                raise ValueError("when segment_ids is ragged, data must be ragged.")
            return segment(reduce, rows.values, ids.values, num_segments)
        if not isinstance(rows, RaggedTensor):
            return reduce(rows, ids, num_segments)
        # Where a segment's rows begin in the result: as many as its longest row has.
        kind = rows.row_splits.dtype.base_dtype
        ids, count = math_ops.cast(ids, kind), math_ops.cast(count, kind)
        lengths = math_ops.maximum(math_ops.unsorted_segment_max(rows.row_lengths(), ids, count), constant(0, kind))
        splits = array_ops.concat([constant([0], kind), math_ops.cumsum(lengths)], axis=0)
        at = array_ops.gather(array_ops.gather(splits, ids), rows.value_rowids())
        at = at + rows._row_partition.offsets_in_rows()
        return RaggedTensor.from_row_splits(segment(reduce, rows.values, at, splits[-1]), splits, validate=False)


def _axes(axis: Any) -> Any:
    if isinstance(axis, Tensor):
        known = constant_value(axis)
        if known is None:
            raise ValueError("axis must be known at graph construction time.")
        axis = known
    if isinstance(axis, np.ndarray):
        return axis.tolist()
    return axis


def reduced(dense: Callable[..., Any], segments: Segments, source: Any, axis: Any, keepdims: Any) -> Any:
    """Reduce over one axis, several or all."""
    axis = _axes(axis)
    if not isinstance(source, RaggedTensor):
        return dense(source, axis, keepdims)
    if axis is None:
        result = dense(source.flat_values, None, False)
        if keepdims:
            for _ in range(source.shape.rank or source.ragged_rank + 1):
                result = array_ops.expand_dims(result, 0)
        return result
    if isinstance(axis, (list, tuple)):
        if not axis:
            return source
        if len(axis) == 1:
            return reduced(dense, segments, source, axis[0], keepdims)
        rank = source.shape.rank
        if rank is None and any(a < 0 for a in axis):
            raise ValueError("Negative axes need a known rank")
        places = sorted({positive_axis(a, rank) for a in axis})
        if len(places) < len(axis):
            raise ValueError(f"Duplicate axes in {axis}")
        inner = reduced(dense, segments, source, places[-1], keepdims)
        if isinstance(inner, RaggedTensor):
            return reduced(dense, segments, inner, places[:-1], keepdims)
        return dense(inner, places[:-1], keepdims)
    place = positive_axis(axis, source.shape.rank)
    if place == 0:
        count = math_ops.maximum(
            math_ops.reduce_max(source.row_lengths()), constant(0, source.row_splits.dtype.base_dtype)
        )
        result = segment(segments, source.values, source._row_partition.offsets_in_rows(), count)
        return _expanded(result, 0) if keepdims else result
    if place == 1:
        result = segment(segments, source.values, source.value_rowids(), source.nrows())
        return _expanded(result, 1) if keepdims else result
    if isinstance(source.values, RaggedTensor):
        return source.with_values(reduced(dense, segments, source.values, place - 1, keepdims))
    return source.with_values(dense(source.values, place - 1, keepdims))


def _expanded(tensor: Any, axis: int) -> Any:
    return expand_dims(tensor, axis) if isinstance(tensor, RaggedTensor) else array_ops.expand_dims(tensor, axis)


def _reduction(name: str, dense: Callable[..., Any], segments: Segments) -> Callable[..., Any]:
    def function(
        input_tensor: Any,
        axis: Any = None,
        keepdims: Any = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: Any = None,
        separator: str | None = None,
    ) -> Any:
        axis = reduction_indices if axis is None else axis
        keep = bool(keep_dims if keepdims is None else keepdims)
        with name_scope(name, scope):
            rows = convert_to_tensor_or_ragged_tensor(input_tensor)
            return reduced(lambda x, a, k: dense(x, axis=a, keepdims=k), segments, rows, axis, keep)

    scope = f"RaggedReduce{name}"
    function.__name__ = function.__qualname__ = f"ragged_reduce_{name.lower()}"
    return function


reduce_sum = _reduction("Sum", math_ops.reduce_sum, math_ops.unsorted_segment_sum)
reduce_prod = _reduction("Prod", math_ops.reduce_prod, math_ops.unsorted_segment_prod)
reduce_max = _reduction("Max", math_ops.reduce_max, math_ops.unsorted_segment_max)
reduce_min = _reduction("Min", math_ops.reduce_min, math_ops.unsorted_segment_min)
reduce_all = _reduction("All", math_ops.reduce_all, _segment_all)
reduce_any = _reduction("Any", math_ops.reduce_any, _segment_any)


def reduce_mean(
    input_tensor: RaggedTensor,
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
) -> Any:
    """Average over axes; rows without values give NaN for floating types."""
    axis = reduction_indices if axis is None else axis
    keep = bool(keep_dims if keepdims is None else keepdims)
    with name_scope(name, "RaggedReduceMean"):
        input_tensor = convert_to_tensor_or_ragged_tensor(input_tensor)
        if not isinstance(input_tensor, RaggedTensor):
            return math_ops.reduce_mean(input_tensor, axis, keep)
        if axis is None:
            return reduced(
                lambda x, a, k: math_ops.reduce_mean(x, axis=a, keepdims=k),
                math_ops.unsorted_segment_sum,
                input_tensor,
                None,
                keep,
            )
        total = reduce_sum(input_tensor, axis, keep)
        count = reduce_sum(input_tensor.with_flat_values(array_ops.ones_like(input_tensor.flat_values)), axis, keep)
        if isinstance(total, RaggedTensor):
            return total.with_flat_values(_quotient(total.flat_values, count.flat_values))
        return _quotient(total, count)


def _quotient(total: Tensor, count: Tensor) -> Tensor:
    return math_ops.truediv(total, count)


def reduce_variance(
    input_tensor: RaggedTensor, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Any:
    """Compute the mean square less the square of the mean."""
    with name_scope(name, "RaggedReduceVariance"):
        rows = convert_to_tensor_or_ragged_tensor(input_tensor)
        if not isinstance(rows, RaggedTensor):
            return math_ops.reduce_variance(rows, axis, keepdims)
        flat = rows.flat_values
        if flat.dtype.is_integer:
            flat = math_ops.cast(flat, dtypes.float64)
        floats = rows.with_flat_values(flat)
        squares = reduce_mean(floats.with_flat_values(square(floats.flat_values)), axis, keepdims)
        means = reduce_mean(floats, axis, keepdims)
        if isinstance(means, RaggedTensor):
            return means.with_flat_values(_spread(squares.flat_values, means.flat_values))
        return _spread(squares, means)


def _spread(squares: Tensor, means: Tensor) -> Tensor:
    return math_ops.maximum(squares - square(means), array_ops.zeros_like(means))


def reduce_std(input_tensor: RaggedTensor, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Compute the root of the variance."""
    with name_scope(name, "RaggedReduceStd"):
        found = reduce_variance(input_tensor, axis, keepdims)
        return found.with_flat_values(sqrt(found.flat_values)) if isinstance(found, RaggedTensor) else sqrt(found)


def reduce_logsumexp(
    input_tensor: RaggedTensor, axis: Any = None, keepdims: Any = None, name: str | None = None
) -> Any:
    """Compute log(sum(exp(x))) over axes."""
    with name_scope(name, "RaggedReduceLogSumExp"):
        total = reduce_sum(input_tensor.with_flat_values(exp(input_tensor.flat_values)), axis, keepdims)
        return total.with_flat_values(log(total.flat_values)) if isinstance(total, RaggedTensor) else log(total)


def softmax(logits: RaggedTensor, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """Compute the softmax along the innermost dimension."""
    with name_scope(name, "RaggedSoftmax"):
        place = dim if axis is None else axis
        if place not in (None, -1) and place != (logits.shape.rank or 0) - 1:
            raise NotImplementedError("The softmax of a ragged tensor is that of its last dimension")
        top = reduce_max(logits, -1, True)
        shifted, tops = broadcast_together(logits, top)
        powers = shifted.with_flat_values(exp(shifted.flat_values - array_ops.stop_gradient(_flat(tops))))
        same, totals = broadcast_together(powers, reduce_sum(powers, -1, True))
        return same.with_flat_values(same.flat_values / _flat(totals))


def _flat(tensor: Any) -> Tensor:
    return tensor.flat_values if isinstance(tensor, RaggedTensor) else tensor  # type: ignore[no-any-return]


def segment_function(reduce: Segments) -> Callable[..., Any]:
    """Let a function of unsorted segments take ragged rows."""

    def function(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
        return segment(reduce, data, segment_ids, num_segments, name)

    return function


def add_n(inputs: Sequence[Any], name: str | None = None) -> Any:
    """Add ragged tensors with equal rows."""
    if not inputs:
        raise ValueError("Expected at least one input")
    with name_scope(name, "RaggedAddN"):
        return map_flat_values(math_ops.add_n, inputs)


unsorted_segment_sum = segment_function(math_ops.unsorted_segment_sum)
unsorted_segment_prod = segment_function(math_ops.unsorted_segment_prod)
unsorted_segment_max = segment_function(math_ops.unsorted_segment_max)
unsorted_segment_min = segment_function(math_ops.unsorted_segment_min)


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Average the rows of the same number."""
    total, count = _total_and_count(data, segment_ids, num_segments)
    return total.with_flat_values(total.flat_values / count) if isinstance(total, RaggedTensor) else total / count


def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Sum the rows of the same number, divided by the root of how many there are."""
    total, count = _total_and_count(data, segment_ids, num_segments)
    root = sqrt(count)
    return total.with_flat_values(total.flat_values / root) if isinstance(total, RaggedTensor) else total / root


def _total_and_count(data: Any, segment_ids: Any, num_segments: Any) -> tuple[Any, Tensor]:
    total = unsorted_segment_sum(data, segment_ids, num_segments)
    ones = data.with_flat_values(array_ops.ones_like(data.flat_values))
    return total, _flat(unsorted_segment_sum(ones, segment_ids, num_segments))


def ragged_cumsum(
    x: RaggedTensor, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Any:
    """Sum up what is before each value along an axis, with the value unless `exclusive`."""
    with name_scope(name, "RaggedCumSum"):
        place = positive_axis(axis, x.shape.rank)
        if place > 1:
            if isinstance(x.values, RaggedTensor):
                return x.with_values(ragged_cumsum(x.values, place - 1, exclusive, reverse))
            return x.with_values(math_ops.cumsum(x.values, place - 1, exclusive, reverse))
        if place == 0:
            raise ValueError("tf.cumsum of a ragged tensor: the first axis has columns of different lengths")
        if isinstance(x.values, RaggedTensor):
            raise ValueError("tf.cumsum of a ragged tensor: the axis must be the last ragged one")
        # Of all values, less what was summed up before the row.
        total = math_ops.cumsum(x.values, 0, exclusive, reverse)
        zero = array_ops.zeros_like(x.values[:1])
        sums = array_ops.concat([zero, math_ops.cumsum(x.values)], 0)
        rows = x.value_rowids()
        if reverse:
            after = array_ops.gather(sums, x._row_partition.nvals()) - array_ops.gather(sums, x.row_limits())
            return x.with_values(total - array_ops.gather(after, rows))
        return x.with_values(total - array_ops.gather(array_ops.gather(sums, x.row_starts()), rows))
