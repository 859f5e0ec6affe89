"""Dimensions of size 1 added and dropped."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.graph_keys import control_dependencies, name_scope
from dtfctl.runtime.ops import array_ops, check_ops
from dtfctl.runtime.ops.ragged_ops.conversion import positive_axis
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor


def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """Insert a dimension of size 1."""
    with name_scope(name, "RaggedExpandDims"):
        x = convert_to_tensor_or_ragged_tensor(input)
        rank = x.shape.rank
        place = positive_axis(dim if axis is None else axis, None if rank is None else rank + 1)
        return _expanded(x, place)


def _expanded(x: Any, place: int) -> Any:
    if not isinstance(x, RaggedTensor):
        return array_ops.expand_dims(x, place)
    kind = x.row_splits.dtype.base_dtype
    if place == 0:
        return RaggedTensor.from_uniform_row_length(x, x.nrows(), nrows=constant(1, kind), validate=False)
    if place == 1:
        return RaggedTensor.from_uniform_row_length(x, constant(1, kind), nrows=x.nrows(), validate=False)
    return x.with_values(_expanded(x.values, place - 1))


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """Remove dimensions of size 1, those that are named.

    Raises:
        ValueError: none is named, or a dimension's size is another; InvalidArgumentError where steps find that.
    """
    with name_scope(name, "RaggedSqueeze"):
        dims = squeeze_dims if axis is None else axis
        if dims is None:
            raise ValueError("Ragged.squeeze must have an axis argument.")
        rank = input.shape.rank
        places = sorted(
            {positive_axis(d, rank) for d in (dims if isinstance(dims, (list, tuple)) else [dims])}, reverse=True
        )
        x = input
        for place in places:
            x = _squeezed(x, place)
        return x


def _squeezed(x: Any, place: int) -> Any:
    if not isinstance(x, RaggedTensor):
        return array_ops.squeeze(x, [place])
    kind = x.row_splits.dtype.base_dtype
    if place > 1:
        return x.with_values(_squeezed(x.values, place - 1))
    what = x.nrows() if place == 0 else x.row_lengths()
    check = check_ops.assert_equal(what, constant(1, kind), message=f"the given axis ({place}) is not squeezable!")
    with control_dependencies([check] if getattr(check, "type", "NoOp") != "NoOp" else []):
        if isinstance(x.values, RaggedTensor):
            inner = x.values
            return RaggedTensor.from_row_splits(inner.values, array_ops.identity(inner.row_splits), validate=False)
        return array_ops.identity(x.values)
