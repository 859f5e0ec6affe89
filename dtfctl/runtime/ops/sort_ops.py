"""Sorting, and the confusion matrix of predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops


def _ordered(values: Any, axis: int, direction: str, stable: bool) -> tuple[Tensor, Tensor]:
    """Sort by TopK over the chosen axis: (sorted values, indices)."""
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(f"Argument `direction` should be one of ASCENDING or DESCENDING. Received: {direction}")
    x = convert_to_tensor(values)
    rank = x.shape.rank
    if rank is None and axis != -1:
        raise ValueError("Sorting along another axis than the last needs a tensor of known rank")
    is_last = rank is None or axis % rank == rank - 1
    perm = [] if rank is None else [*(i for i in range(rank) if i != axis % rank), axis % rank]
    moved = x if is_last else array_ops.transpose(x, perm)
    flipped = moved
    kind = x.dtype.base_dtype
    if direction == "ASCENDING":
        # Largest first of the mirrored values: integers are mirrored within their range.
        flipped = kind.max - moved if kind.is_unsigned else (-1 - moved if kind.is_integer else -moved)
    top, indices = apply_op_outputs("TopKV2", input=flipped, k=array_ops.shape(moved)[-1], sorted=True)
    if direction == "ASCENDING":
        top = kind.max - top if kind.is_unsigned else (-1 - top if kind.is_integer else -top)
    if not is_last:
        back = np.argsort(perm).tolist()
        top, indices = array_ops.transpose(top, back), array_ops.transpose(indices, back)
    return top, indices


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """Sort values along an axis."""
    with name_scope(name, "sort"):
        return _ordered(values, axis, direction, False)[0]


def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """Find the indices that sort values along an axis."""
    with name_scope(name, "argsort"):
        return _ordered(values, axis, direction, stable)[1]


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
