"""Ragged tensors cut into several along a dimension."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import control_dependencies, name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import dimension_value
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.ragged_ops.conversion import positive_axis
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor


def split(value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split") -> list[Any]:
    """Cut along a uniform dimension into so many equal parts, or into parts of these sizes.

    Raises:
        ValueError: a ragged dimension, sizes of an unknown number, or sizes that are not those of the dimension;
            InvalidArgumentError where steps find that.
    """
    with name_scope(name, "RaggedSplit"):
        source = convert_to_tensor_or_ragged_tensor(value)
        if not isinstance(source, RaggedTensor):
            return array_ops.split(source, num_or_size_splits, axis, num, name)
        place = positive_axis(axis, source.shape.rank)
        return _split(source, num_or_size_splits, place, num)


def _split(source: Any, parts: Any, axis: int, num: int | None) -> list[Any]:
    if not isinstance(source, RaggedTensor):
        return array_ops.split(source, parts, axis, num)
    if axis > 1:
        return [source.with_values(part) for part in _split(source.values, parts, axis - 1, num)]
    if axis == 1:
        length = source.uniform_row_length
        if length is None:
            raise ValueError("tf.split does not support axis=1: the dimension is ragged")
        return [source[:, begin:end] for begin, end in _bounds(length, parts, num)]
    return [source[begin:end] for begin, end in _bounds(source.nrows(), parts, num)]


def _bounds(size: Tensor, parts: Any, num: int | None) -> list[tuple[Tensor, Tensor]]:
    """Find where each part begins and ends, and check that they are the whole."""
    kind = size.dtype.base_dtype
    sizes = convert_to_tensor(parts, kind) if not isinstance(parts, Tensor) else math_ops.cast(parts, kind)
    if sizes.shape.rank == 0:
        count = constant_value(sizes)
        if count is None:
            raise ValueError("tf.split of a ragged tensor: the number of parts must be known")
        if int(count) < 1:
            raise ValueError(f"tf.split: the number of parts must be positive, got {int(count)}")
        check = check_ops.assert_equal(
            math_ops.floormod(size, sizes), constant(0, kind), message="Cannot exactly split the dimension"
        )
        with control_dependencies(_real(check)):
            step = math_ops.floordiv(size, sizes)
        return [(step * i, step * (i + 1)) for i in range(int(count))]
    known = dimension_value(sizes.shape[0]) if sizes.shape.rank == 1 else None
    number = num if known is None else known
    if number is None:
        raise ValueError("tf.split of a ragged tensor: the number of sizes, or num, must be known")
    if num is not None and known is not None and num != known:
        raise ValueError(f"tf.split: num is {num}, and there are {known} sizes")
    checks = [
        check_ops.assert_non_negative(sizes, message="sizes of parts must not be negative"),
        check_ops.assert_equal(math_ops.reduce_sum(sizes), size, message="sizes of parts must add up to the dimension"),
    ]
    with control_dependencies([c for check in checks for c in _real(check)]):
        ends = math_ops.cumsum(sizes)
    return [(ends[i] - sizes[i], ends[i]) for i in range(number)]


def _real(check: Any) -> list[Any]:
    return [check] if getattr(check, "type", "NoOp") != "NoOp" else []
