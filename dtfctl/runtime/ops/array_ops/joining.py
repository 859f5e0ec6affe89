"""Joining tensors and splitting them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework.convert import convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.array_ops.passing import identity
from dtfctl.runtime.ops.array_ops.shapes import expand_dims, index_tensor
from dtfctl.runtime.ops.operands import has_dtype


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Put tensors one after the other along an axis."""
    if not isinstance(values, (list, tuple)):
        values = [values]
    if len(values) == 1:
        # Nothing else would be heard of TensorFlow 0's `concat(1, [a, b])`.
        if isinstance(axis, (list, tuple)):
            raise ValueError(f"The axis of concat must have rank 0: the values come first, then it (not {axis!r})")
        alone: Tensor = identity(values[0], name=name)
        return alone
    return apply_op("ConcatV2", name, values=list(values), axis=axis)


def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Stack tensors of one shape along a new axis; a constant when everything is Python."""
    if axis == 0:
        try:
            return convert_to_tensor(values, name=name) if not _has_tensors(values) else stacked(values, axis, name)
        except (TypeError, ValueError):
            pass
    return stacked(values, axis, name)


def _has_tensors(values: Any) -> bool:
    return any(not isinstance(v, (int, float, np.ndarray, np.generic, str, bytes, list, tuple)) for v in values)


def stacked(values: Any, axis: int, name: str) -> Tensor:
    items = list(values)
    hint = next((v.dtype.base_dtype for v in items if isinstance(v, Tensor)), None)
    rank = TensorShape(items[0].shape).rank if items and has_dtype(items[0]) else None
    if rank is not None and not -rank - 1 <= axis <= rank:
        raise ValueError(f"Argument `axis` = {axis} not in range [{-rank - 1}, {rank + 1})")
    types = [v.dtype.base_dtype.name for v in items if has_dtype(v)]
    if len(set(types)) > 1:
        raise TypeError(
            f"Tensors in list passed to 'values' of 'Pack' Op have types [{', '.join(types)}] that don't all match."
        )
    return apply_op("Pack", name, values=[convert_to_tensor(v, hint) for v in items], axis=axis)


def parallel_stack(values: Sequence[Any], name: str = "parallel_stack") -> Tensor:
    """Stack tensors of one known shape along a new first axis, each copied as soon as it is there."""
    with name_scope(name) as scope:
        tensors = [expand_dims(convert_to_tensor(v), 0) for v in values]
        whole = TensorShape([len(tensors)]).concatenate(tensors[0].shape[1:])
        return apply_op("ParallelConcat", scope, values=tensors, shape=whole)


def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    """Take a tensor apart into its slices along an axis."""
    value = convert_to_tensor(value)
    if num is None:
        dims = value.shape.dims_or_none
        if dims is not None:
            if not -len(dims) <= axis < len(dims):
                raise ValueError(f"Argument `axis` = {axis} not in [{-len(dims)}, {len(dims)})")
            num = dims[axis]
    if num is None:
        raise ValueError(f"Cannot infer argument `num` from shape {value.shape}")
    return apply_op_outputs("Unpack", name, value=value, num=num, axis=axis)


def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Cut a tensor into equal parts (a number) or parts of the given sizes."""
    if isinstance(num_or_size_splits, (int, np.integer)):
        return apply_op_outputs("Split", name, split_dim=axis, value=value, num_split=int(num_or_size_splits))
    sizes = convert_to_tensor(index_tensor(num_or_size_splits))
    if sizes.shape.rank == 0:
        raise ValueError("Rank-0 tensors are not supported as the num_or_size_splits argument to split.")
    if num is None:
        num = sizes.shape.num_elements()
        if num is None:
            raise ValueError("Cannot infer argument `num` from shape; give it")
    return apply_op_outputs("SplitV", name, value=value, size_splits=sizes, split_dim=axis, num_split=num)
