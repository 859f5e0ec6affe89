"""Reductions over segments: runs of rows, or rows with the same number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.op_defs.binary import maximum
from dtfctl.runtime.ops.op_defs.elementwise import sqrt


def _segment(op_type: str) -> Callable[..., Tensor]:
    def function(data: Any, segment_ids: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, name, data=data, segment_ids=segment_ids)

    function.__name__ = function.__qualname__ = op_type
    return function


def _unsorted(op_type: str) -> Callable[..., Tensor]:
    def function(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
        return apply_op(op_type, name, data=data, segment_ids=segment_ids, num_segments=num_segments)

    function.__name__ = function.__qualname__ = op_type
    return function


segment_sum, segment_mean, segment_prod = _segment("SegmentSum"), _segment("SegmentMean"), _segment("SegmentProd")
segment_max, segment_min = _segment("SegmentMax"), _segment("SegmentMin")
unsorted_segment_sum, unsorted_segment_prod = _unsorted("UnsortedSegmentSum"), _unsorted("UnsortedSegmentProd")
unsorted_segment_max, unsorted_segment_min = _unsorted("UnsortedSegmentMax"), _unsorted("UnsortedSegmentMin")


def _segment_counts(data: Tensor, ids: Any, num_segments: Any) -> Tensor:
    """Count the rows of segments, at least 1, shaped to divide the sums."""
    ids = convert_to_tensor(ids)
    flat = apply_op("Reshape", tensor=ids, shape=[-1])
    ones = apply_op("Fill", dims=apply_op("Shape", input=flat), value=constant(1, data.dtype.base_dtype))
    counts = unsorted_segment_sum(ones, flat, num_segments)
    rank, ids_rank = data.shape.rank, ids.shape.rank
    if rank is None or ids_rank is None:
        raise ValueError("segment means need arguments of known rank")
    counts = maximum(counts, constant(1, data.dtype.base_dtype))
    return apply_op("Reshape", tensor=counts, shape=[-1] + [1] * (rank - ids_rank))


def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Average the rows with the same number."""
    with name_scope(name, "UnsortedSegmentMean"):
        data = convert_to_tensor(data)
        total = unsorted_segment_sum(data, segment_ids, num_segments)
        return total / _segment_counts(data, segment_ids, num_segments)


def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Tensor:
    """Sum the rows with the same number, divided by the root of their count."""
    with name_scope(name, "UnsortedSegmentSqrtN"):
        data = convert_to_tensor(data)
        total = unsorted_segment_sum(data, segment_ids, num_segments)
        return total / sqrt(_segment_counts(data, segment_ids, num_segments))


def _sparse_segment(op_type: str) -> Callable[..., Tensor]:
    def function(
        data: Any,
        indices: Any,
        segment_ids: Any,
        name: str | None = None,
        num_segments: Any = None,
        sparse_gradient: bool = False,
    ) -> Tensor:
        common = {"data": data, "indices": indices, "segment_ids": segment_ids, "sparse_gradient": sparse_gradient}
        if num_segments is not None:
            return apply_op(f"{op_type}WithNumSegments", name, num_segments=num_segments, **common)
        return apply_op(op_type, name, **common)

    function.__name__ = function.__qualname__ = op_type
    return function


sparse_segment_sum = _sparse_segment("SparseSegmentSum")
sparse_segment_mean = _sparse_segment("SparseSegmentMean")
sparse_segment_sqrt_n = _sparse_segment("SparseSegmentSqrtN")
