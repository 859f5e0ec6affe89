"""Sorting, and the confusion matrix of predictions."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops


def _ordered(values: Any, axis: int, direction: str, indices: bool) -> Tensor:
    """Sort by TopK over the chosen axis; give the values or their indices."""
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"Argument `direction` should be one of ASCENDING or DESCENDING. Received: {direction}")
    x = convert_to_tensor(values)
    if direction == "DESCENDING":
        return _largest_first(x, axis, indices)
    # Largest first of the mirrored values: integers are mirrored within their range.
    kind = x.dtype.base_dtype
    ordered = _largest_first(_mirrored(x, kind), axis, indices)
    return ordered if indices else _mirrored(ordered, kind)


def _mirrored(x: Tensor, kind: DType) -> Tensor:
    mirrored: Tensor = kind.max - x if kind.is_unsigned else (-1 - x if kind.is_integer else -x)
    return mirrored


def _largest_first(x: Tensor, axis: int, indices: bool) -> Tensor:
    """Sort with the axis and the last one changed for each other, where they are two."""
    rank = x.shape.rank
    if axis == -1 or axis + 1 == rank:
        return apply_op_outputs("TopKV2", input=x, k=array_ops.shape(x)[-1], sorted=True)[indices]
    if rank is None:
        last = apply_op("Rank", input=x) - 1
        at = axis if axis >= 0 else last + (axis + 1)
        order: Any = apply_op(
            "TensorScatterUpdate",
            tensor=apply_op("Range", start=0, limit=last + 1, delta=1),
            indices=array_ops.stack([[at], [last]]),
            updates=array_ops.stack([last, at]),
        )
    else:
        if not -rank <= axis < rank:
            raise ValueError(f"Argument `axis` = {axis} not in range [{-rank}, {rank})")
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
    moved = array_ops.transpose(x, order)
    found = apply_op_outputs("TopKV2", input=moved, k=array_ops.shape(moved)[-1], sorted=True)[indices]
    return array_ops.transpose(found, order)


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """Sort values along an axis."""
    with name_scope(name, "sort"):
        return _ordered(values, axis, direction, indices=False)


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """Find the indices that sort values along an axis."""
    with name_scope(name, "argsort"):
        return _ordered(values, axis, direction, indices=True)


def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = dtypes.int32,
    name: str | None = None,
    weights: Any = None,
) -> Tensor:
    """Count how often each label (row) was predicted as each class (column): [classes, classes]."""
    with name_scope(name, "confusion_matrix"):
        rows = math_ops.cast(array_ops.reshape(labels, [-1]), dtypes.int64)
        columns = math_ops.cast(array_ops.reshape(predictions, [-1]), dtypes.int64)
        if num_classes is None:
            top = math_ops.maximum(math_ops.reduce_max(rows), math_ops.reduce_max(columns))
            size = top + 1
        else:
            size = math_ops.cast(convert_to_tensor(num_classes), dtypes.int64)
        wanted = as_dtype(dtype)
        if weights is None:
            values = array_ops.ones_like(columns, dtype=wanted)
        else:
            values = math_ops.cast(array_ops.reshape(weights, [-1]), wanted)
        shape = array_ops.stack([size, size])
        return array_ops.scatter_nd(array_ops.stack([rows, columns], axis=1), values, shape)
