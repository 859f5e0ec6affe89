"""Batches of operands of a linear operator, made of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops


def static(shapes: Sequence[TensorShape]) -> TensorShape:
    """Broadcast static shapes."""
    return TensorShape(reduce(array_ops.broadcast_static_shape, shapes))


def dynamic(shapes: Sequence[Any]) -> Tensor:
    """Broadcast shapes, int32 tensors."""
    found: Tensor = reduce(array_ops.broadcast_dynamic_shape, shapes)
    return found


def matrices(*items: Tensor) -> list[Tensor]:
    """Give matrices [..., r, c] one batch."""
    batches = [item.shape[:-2] if item.shape.ndims is not None else None for item in items]
    if all(batch is not None and batch.is_fully_defined() for batch in batches):
        known = [batch.as_list() for batch in batches if batch is not None]
        if all(batch == known[0] for batch in known):
            return list(items)
    batch = dynamic([array_ops.shape(item)[:-2] for item in items])
    whole = [to_batch(item, batch, 2) for item in items]
    if all(known is not None for known in batches):
        of_all = static([item.shape[:-2] for item in items])
        for item, made in zip(items, whole, strict=True):
            made.set_shape(of_all.concatenate(item.shape[-2:]))
    return whole


def to_batch(item: Tensor, batch: Any, ndims: int) -> Tensor:
    """Broadcast all of `item` but its last `ndims` dimensions to `batch`."""
    shape = array_ops.concat([batch, array_ops.shape(item)[-ndims:]], 0) if ndims else batch
    found: Tensor = array_ops.broadcast_to(item, shape)
    return found
