"""Ragged tensors one after the other, and beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework.graph_keys import control_dependencies, name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.ragged_ops.broadcasting import deepened
from dtfctl.runtime.ops.ragged_ops.conversion import positive_axis
from dtfctl.runtime.ops.ragged_ops.dimensions import expand_dims
from dtfctl.runtime.ops.ragged_ops.gathering import gather
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import (
    RaggedTensor,
    convert_to_tensor_or_ragged_tensor,
    match_row_splits_dtypes,
    row_count,
)


def concat(values: Any, axis: Any, name: str | None = None) -> Any:
    """Join tensors, ragged or not, along a dimension.

    Raises:
        ValueError: none are given, of different known ranks, or the axis is out of bounds.
    """
    with name_scope(name, "RaggedConcat"):
        tensors = _tensors(values)
        return _joined(tensors, positive_axis(axis, _rank(tensors)))


def stack(values: Any, axis: Any = 0, name: str | None = None) -> Any:
    """Put tensors of one rank, ragged or not, beside each other along a new dimension."""
    with name_scope(name, "RaggedStack"):
        tensors = _tensors(values)
        rank = _rank(tensors)
        place = positive_axis(axis, None if rank is None else rank + 1)
        if rank == 0:
            return array_ops.stack(tensors)
        if place == 0 and rank == 1 and not any(isinstance(t, RaggedTensor) for t in tensors):
            lengths = [row_count(t) for t in tensors]
            return RaggedTensor.from_row_lengths(array_ops.concat(tensors, 0), array_ops.stack(lengths), validate=False)
        expanded = [_expanded(t, place) for t in tensors]
        return _joined(expanded, place)


def _expanded(tensor: Any, axis: int) -> Any:
    if axis == 0 and not isinstance(tensor, RaggedTensor):
        tensor = array_ops.expand_dims(tensor, 0)
        return RaggedTensor.from_tensor(tensor, ragged_rank=1)
    return expand_dims(tensor, axis)


def _tensors(values: Any) -> list[Any]:
    if not isinstance(values, (list, tuple)):
        values = [values]
    if not values:
        raise ValueError("rt_inputs may not be empty.")
    return match_row_splits_dtypes(*[convert_to_tensor_or_ragged_tensor(v, name="rt_input") for v in values])


def _rank(tensors: Sequence[Any]) -> int | None:
    ranks = {t.shape.rank for t in tensors if t.shape.rank is not None}
    if len(ranks) > 1:
        raise ValueError(f"all inputs must have the same rank; got ranks {sorted(ranks)}")
    return next(iter(ranks), None)


def _joined(tensors: list[Any], axis: int) -> Any:
    if len(tensors) == 1:
        return tensors[0]
    ragged = [t for t in tensors if isinstance(t, RaggedTensor)]
    rank = _rank(tensors)
    if not ragged and axis == 0 and rank == 1:
        return array_ops.concat(tensors, 0)
    kind = ragged[0].row_splits.dtype.base_dtype if ragged else "int64"
    depth = max([1 if axis == 0 else axis, *(t.ragged_rank for t in ragged)])
    if rank is not None:
        depth = min(depth, rank - 1)
        if any(not _inner_agree(tensors, place) for place in range(depth + 1, rank) if place != axis):
            depth = rank - 1
    same = [deepened(t, depth, kind) for t in tensors]
    if axis == 0:
        return _after_each_other(same)
    if axis == 1:
        return _row_by_row(same)
    checks = [
        check_ops.assert_equal(same[0].row_splits, t.row_splits, message="Inputs must have identical ragged splits")
        for t in same[1:]
    ]
    with control_dependencies([c for c in checks if getattr(c, "type", "NoOp") != "NoOp"]):
        first = array_ops.identity(same[0].row_splits)
    inner = _joined([t.values for t in same], axis - 1)
    return RaggedTensor.from_row_splits(inner, first, validate=False)


def _inner_agree(tensors: list[Any], axis: int) -> bool:
    """Tell whether a uniform dimension may be the same size in all tensors."""
    sizes = {t.shape.dims_or_none[axis] for t in tensors if t.shape.dims_or_none is not None}
    return len(sizes - {None}) < 2


def _after_each_other(tensors: list[Any]) -> Any:
    if isinstance(tensors[0], Tensor):
        return array_ops.concat(tensors, 0)
    values = _after_each_other([t.values for t in tensors])
    lengths = array_ops.concat([t.row_lengths() for t in tensors], axis=0)
    return RaggedTensor.from_row_lengths(values, lengths, validate=False)


def _row_by_row(tensors: list[RaggedTensor]) -> Any:
    """Join the rows of the same place: all rows in their order, then as many as there are tensors to one."""
    counts = [t.nrows() for t in tensors]
    message = "Input tensors have incompatible shapes: their numbers of rows differ."
    checks = [check_ops.assert_equal(counts[0], c, message=message) for c in counts[1:]]
    with control_dependencies([c for c in checks if getattr(c, "type", "NoOp") != "NoOp"]):
        rows = array_ops.identity(counts[0])
    whole = _after_each_other(list(tensors))
    places = math_ops.range(rows * len(tensors))
    order = array_ops.reshape(array_ops.transpose(array_ops.reshape(places, [len(tensors), -1])), [-1])
    if all(t._row_partition.static_nrows == 0 for t in tensors):
        order = places
    ordered = gather(whole, order)
    bounds = math_ops.range(rows + 1) * len(tensors)
    splits = array_ops.gather(ordered.row_splits, bounds)
    return RaggedTensor.from_row_splits(ordered.values, splits, validate=False)
