"""How values are cut into rows: the encodings of a partition, and from each to the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.composite import CompositeTensor
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import DType, as_dtype
from dtfctl.runtime.framework.graph_keys import control_dependencies, name_scope
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import dimension_value
from dtfctl.runtime.ops import array_ops, check_ops, math_ops


class RowPartition(CompositeTensor):
    """A partition of `nvals` values into rows, one after the other.

    Made by the `from_...` methods. All its tensors have one type, int64 or int32.

    Attributes:
        splits: [nrows + 1]; row i has the values splits[i], ..., splits[i + 1] - 1.
    """

    def __init__(
        self,
        splits: Tensor,
        *,
        lengths: Tensor | None = None,
        rowids: Tensor | None = None,
        nrows: Tensor | None = None,
        uniform: Tensor | None = None,
        nvals: Tensor | None = None,
    ) -> None:
        self.splits = splits
        self._lengths, self._rowids, self._nrows, self._uniform, self._nvals = lengths, rowids, nrows, uniform, nvals

    # From each encoding.

    @classmethod
    def from_row_splits(
        cls, row_splits: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Take where rows begin, and the number of values last.

        Raises:
            ValueError: no vector, or empty; InvalidArgumentError (in a step): no splits, where `validate`.
        """
        _check_flag(validate)
        with name_scope(None, "RowPartitionFromRowSplits"):
            splits = _index(row_splits, "row_splits", dtype, dtype_hint)
            _vector(splits, "row_splits")
            if dimension_value(splits.shape[0]) == 0:
                raise ValueError("row_splits may not be empty: a partition of no rows has the splits [0]")
            if validate:
                message = "Arguments to from_row_splits do not form a valid RaggedTensor:"
                zero = constant(0, splits.dtype.base_dtype)
                splits = _after(
                    splits,
                    lambda: [
                        check_ops.assert_equal(splits[0], zero, message=f"{message}zero"),
                        check_ops.assert_non_negative(splits[1:] - splits[:-1], message=f"{message}monotonic"),
                    ],
                )
        return cls(splits)

    @classmethod
    def from_row_lengths(
        cls,
        row_lengths: Any,
        validate: bool = True,
        dtype: Any = None,
        dtype_hint: Any = None,
        nvals: Any = None,
    ) -> RowPartition:
        """Take how many values each row has."""
        _check_flag(validate)
        with name_scope(None, "RowPartitionFromRowLengths"):
            lengths = _index(row_lengths, "row_lengths", dtype, dtype_hint)
            _vector(lengths, "row_lengths")
            if validate:
                message = "Arguments to from_row_lengths do not form a valid RowPartition"
                lengths = _after(lengths, lambda: [check_ops.assert_non_negative(lengths, message=message)])
            limits = math_ops.cumsum(lengths)
            splits = array_ops.concat([constant([0], lengths.dtype.base_dtype), limits], axis=0)
        return cls(splits, lengths=lengths)

    @classmethod
    def from_row_starts(
        cls, row_starts: Any, nvals: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Take where rows begin, and how many values there are."""
        _check_flag(validate)
        with name_scope(None, "RowPartitionFromRowStarts"):
            starts = _index(row_starts, "row_starts", dtype, dtype_hint)
            _vector(starts, "row_starts")
            total = math_ops.cast(nvals, starts.dtype.base_dtype)
            if validate:
                message = "Arguments to from_row_starts do not form a valid RaggedTensor"
                zero = constant(0, starts.dtype.base_dtype)
                starts = _after(
                    starts,
                    lambda: [
                        check_ops.assert_equal(starts[:1], zero, message=message),
                        check_ops.assert_non_negative(starts[1:] - starts[:-1], message=message),
                        check_ops.assert_less_equal(starts[-1:], total, message=message),
                    ],
                )
            splits = array_ops.concat([starts, array_ops.reshape(total, [1])], axis=0)
        return cls(splits)

    @classmethod
    def from_row_limits(
        cls, row_limits: Any, validate: bool = True, dtype: Any = None, dtype_hint: Any = None
    ) -> RowPartition:
        """Take where rows end."""
        _check_flag(validate)
        with name_scope(None, "RowPartitionFromRowLimits"):
            limits = _index(row_limits, "row_limits", dtype, dtype_hint)
            _vector(limits, "row_limits")
            zero = constant([0], limits.dtype.base_dtype)
            if validate:
                message = "Arguments to from_row_limits do not form a valid RaggedTensor"
                limits = _after(
                    limits,
                    lambda: [
                        check_ops.assert_non_negative(limits[:1], message=message),
                        check_ops.assert_non_negative(limits[1:] - limits[:-1], message=message),
                    ],
                )
            splits = array_ops.concat([zero, limits], axis=0)
        return cls(splits)

    @classmethod
    def from_value_rowids(
        cls,
        value_rowids: Any,
        nrows: Any = None,
        validate: bool = True,
        dtype: Any = None,
        dtype_hint: Any = None,
    ) -> RowPartition:
        """Take each value's row, in order, and how many rows there are (up to the last that has a value when None).

        Raises:
            ValueError: not a vector, or fewer rows than the last value's.
        """
        _check_flag(validate)
        with name_scope(None, "RowPartitionFromValueRowIds"):
            rowids = _index(value_rowids, "value_rowids", dtype, dtype_hint)
            _vector(rowids, "value_rowids")
            kind = rowids.dtype.base_dtype
            if nrows is None:
                last = array_ops.concat([constant([-1], kind), rowids], axis=0)[-1]
                rows = last + 1
            else:
                rows = _index(nrows, "nrows", kind, None)
                if rows.shape.rank not in (None, 0):
                    raise ValueError(f"Expected scalar shape for nrows, saw shape: {rows.shape}")
                _check_rows(rows, rowids)
            if validate:
                message = "Arguments to from_value_rowids do not form a valid RowPartition"
                rowids = _after(
                    rowids,
                    lambda: [
                        check_ops.assert_non_negative(rowids[:1], message=message),
                        check_ops.assert_non_negative(rowids[1:] - rowids[:-1], message=message),
                        check_ops.assert_less(rowids[-1:], rows, message=message),
                    ],
                )
            lengths = math_ops.unsorted_segment_sum(array_ops.ones_like(rowids), rowids, rows)
            splits = array_ops.concat([constant([0], kind), math_ops.cumsum(lengths)], axis=0)
        return cls(splits, lengths=lengths, rowids=rowids, nrows=rows)

    @classmethod
    def from_uniform_row_length(
        cls,
        uniform_row_length: Any,
        nvals: Any = None,
        nrows: Any = None,
        validate: bool = True,
        dtype: Any = None,
        dtype_hint: Any = None,
    ) -> RowPartition:
        """Take the one length of all rows, and how many values or rows there are.

        Raises:
            ValueError: neither `nvals` nor `nrows` is given, or a length of 0 without `nrows`.
        """
        _check_flag(validate)
        if nvals is None and nrows is None:
            raise ValueError("Either nvals or nrows must be specified")
        with name_scope(None, "RowPartitionFromUniformRowLength"):
            given = [v for v in (uniform_row_length, nvals, nrows) if isinstance(v, Tensor)]
            kind = (
                as_dtype(dtype) if dtype else (given[0].dtype.base_dtype if given else as_dtype(dtype_hint or "int64"))
            )
            length = math_ops.cast(_index(uniform_row_length, "uniform_row_length", None, kind), kind)
            if length.shape.rank not in (None, 0):
                raise ValueError(f"Shape {length.shape} must have rank 0")
            known = constant_value(length)
            if nrows is None:
                if known is not None and int(known) == 0:
                    raise ValueError("nrows must be specified if uniform_row_length is zero")
                rows = math_ops.floordiv(math_ops.cast(nvals, kind), length)
            else:
                rows = math_ops.cast(nrows, kind)
            total = length * rows
            splits = math_ops.range(rows + 1) * length
            if validate:
                message = "Arguments to from_uniform_row_length do not form a valid RaggedTensor"
                checks: list[Any] = [lambda: check_ops.assert_non_negative(length, message=message)]
                checks.append(lambda: check_ops.assert_non_negative(rows, message=message))
                if nvals is not None:
                    have = math_ops.cast(nvals, kind)
                    checks.append(lambda: check_ops.assert_equal(total, have, message=message))
                splits = _after(splits, lambda: [check() for check in checks])
            static = constant_value(rows)
            splits.set_shape([None if static is None else int(static) + 1])
        return cls(splits, nrows=rows, uniform=length, nvals=total)

    # What it is.

    @property
    def dtype(self) -> DType:
        """The type of its tensors: int64 or int32."""
        return self.splits.dtype.base_dtype

    @property
    def static_nrows(self) -> int | None:
        size = dimension_value(self.splits.shape[0])
        return None if size is None else size - 1

    @property
    def static_nvals(self) -> int | None:
        """The number of values, where the graph's constants tell it."""
        if self._rowids is not None and (size := dimension_value(self._rowids.shape[0])) is not None:
            return size
        length, rows = self.static_uniform_row_length, self.static_nrows
        if length is not None and rows is not None:
            return length * rows
        known = constant_value(self.splits)
        return None if known is None or not known.size else int(known[-1])

    @property
    def static_uniform_row_length(self) -> int | None:
        known = None if self._uniform is None else constant_value(self._uniform)
        return None if known is None else int(known)

    def is_uniform(self) -> bool:
        """Tell whether it was made of one length for all rows."""
        return self._uniform is not None

    def row_splits(self) -> Tensor:
        return self.splits

    def nrows(self, out_type: Any = None) -> Tensor:
        """Count the rows."""
        if self._nrows is None:
            static = self.static_nrows
            self._nrows = (
                constant(static, self.dtype)
                if static is not None
                else array_ops.shape(self.splits, out_type=self.dtype)[0] - 1
            )
        return self._nrows if out_type is None else math_ops.cast(self._nrows, out_type)

    def nvals(self, out_type: Any = None) -> Tensor:
        """Count the values."""
        total = self.splits[-1] if self._nvals is None else self._nvals
        return total if out_type is None else math_ops.cast(total, out_type)

    def row_starts(self) -> Tensor:
        return self.splits[:-1]

    def row_limits(self) -> Tensor:
        return self.splits[1:]

    def row_lengths(self) -> Tensor:
        """Count each row's values: [nrows]."""
        if self._lengths is None:
            self._lengths = self.splits[1:] - self.splits[:-1]
        return self._lengths

    def value_rowids(self) -> Tensor:
        """Find each value's row: [nvals]."""
        if self._rowids is None:
            places = math_ops.range(self.nvals())
            self._rowids = array_ops.searchsorted(self.splits, places, side="right", out_type=self.dtype) - 1
            self._rowids.set_shape([self.static_nvals])
        return self._rowids

    def uniform_row_length(self) -> Tensor | None:
        return self._uniform

    def offsets_in_rows(self) -> Tensor:
        """Find each value's place within its row: [nvals]."""
        rowids = self.value_rowids()
        return math_ops.range(self.nvals()) - array_ops.gather(self.row_starts(), rowids)

    def with_dtype(self, dtype: Any) -> RowPartition:
        """Give the same partition with tensors of another type."""
        wanted = as_dtype(dtype)
        if wanted not in (dtypes.int32, dtypes.int64):
            raise ValueError(f"Argument `dtype` must be int32 or int64. Received {wanted!r}.")
        if wanted is self.dtype:
            return self

        def cast(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else math_ops.cast(tensor, wanted)

        return RowPartition(
            math_ops.cast(self.splits, wanted),
            lengths=cast(self._lengths),
            rowids=cast(self._rowids),
            nrows=cast(self._nrows),
            uniform=cast(self._uniform),
            nvals=cast(self._nvals),
        )

    def with_row_splits(self, splits: Tensor) -> RowPartition:
        """Give a partition that is known by other splits: the same numbers, checked or under other dependencies."""
        return RowPartition(splits, uniform=self._uniform, nrows=self._nrows, nvals=self._nvals)

    def with_dependencies(self, dependencies: list[Any]) -> RowPartition:
        """Give the same partition, there only when these ops have run."""
        if not dependencies:
            return self
        with control_dependencies(dependencies):
            return self.with_row_splits(array_ops.identity(self.splits))

    def components(self) -> list[Any]:
        return [self.splits] if self._uniform is None else [self.splits, self._uniform]

    def with_components(self, components: Iterator[Any]) -> RowPartition:
        return RowPartition(next(components), uniform=None if self._uniform is None else next(components))

    def __repr__(self) -> str:
        if self._uniform is not None:
            return f"tf.RowPartition(nrows={self._nrows}, uniform_row_length={self._uniform})"
        return f"tf.RowPartition(row_splits={self.splits})"


def _check_flag(validate: Any) -> None:
    if not isinstance(validate, bool):
        raise TypeError(f"Argument `validate` must have type bool. Received {validate}.")


def _index(value: Any, name: str, dtype: Any, hint: Any) -> Tensor:
    """Convert to a tensor of int64, or int32 where the value or `dtype` says so."""
    if isinstance(value, np.ndarray) and dtype is None:
        dtype = dtypes.int32 if value.dtype == np.int32 else dtypes.int64
    elif dtype is None and not hasattr(value, "dtype"):
        dtype = hint or dtypes.int64
    tensor = convert_to_tensor(value, dtype, name=name)
    if tensor.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
        raise ValueError(f"{name} must have dtype int32 or int64, got {tensor.dtype.base_dtype.name}")
    return tensor


def _vector(tensor: Tensor, name: str) -> None:
    if tensor.shape.rank is None:
        tensor.set_shape([None])
    elif tensor.shape.rank != 1:
        raise ValueError(f"Shape {tensor.shape} must have rank 1: {name}")


def _check_rows(rows: Tensor, rowids: Tensor) -> None:
    """Raise ValueError where constants tell that there are too few rows."""
    known, ids = constant_value(rows), constant_value(rowids)
    if known is not None and int(known) < 0:
        raise ValueError(f"Expected nrows >= 0; got {int(known)}")
    if known is not None and ids is not None and ids.size and int(known) <= int(ids[-1]):
        raise ValueError(
            f"Expected nrows >= value_rowids[-1] + 1; got nrows={int(known)}, value_rowids[-1]={int(ids[-1])}"
        )


def _after(tensor: Tensor, checks: Any) -> Tensor:
    """Give the tensor when the checks have run; what constants prove is not checked in steps."""
    made = [check for check in checks() if getattr(check, "type", "NoOp") != "NoOp"]
    if not made:
        return tensor
    with control_dependencies(made):
        return array_ops.identity(tensor)
