"""Dimensions added, dropped, repeated and reversed; elements chosen by truth values."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import control_dependencies, name_scope
from dtfctl.runtime.framework.tensor_shape import dimension_value
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.ragged_ops.broadcasting import broadcast_together
from dtfctl.runtime.ops.ragged_ops.conversion import flatten_outer, positive_axis
from dtfctl.runtime.ops.ragged_ops.dimensions import expand_dims
from dtfctl.runtime.ops.ragged_ops.gathering import gather
from dtfctl.runtime.ops.ragged_ops.joining import concat
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import (
    RaggedTensor,
    convert_to_tensor_or_ragged_tensor,
    match_row_splits_dtypes,
)
from dtfctl.runtime.ops.ragged_ops.row_partition import RowPartition


def tile(input: RaggedTensor, multiples: Any, name: str | None = None) -> Any:
    """Repeat each dimension so many times.

    Raises:
        ValueError: not one number for each dimension.
    """
    with name_scope(name, "RaggedTile"):
        x = convert_to_tensor_or_ragged_tensor(input)
        counts = convert_to_tensor(multiples, name="multiples")
        if not isinstance(x, RaggedTensor):
            return array_ops.tile(x, counts)
        counts = math_ops.cast(counts, x.row_splits.dtype.base_dtype)
        rank, given = x.shape.rank, dimension_value(counts.shape[0])
        if rank is not None and given is not None and rank != given:
            raise ValueError(f"multiples must have length {rank}, the rank of the input; got {given}")
        return _tiled(x, counts)


def _tiled(x: RaggedTensor, counts: Any) -> Any:
    kind = counts.dtype.base_dtype
    inner_rank = (x.flat_values.shape.rank or 1) - 1
    known = constant_value(counts)
    result: Any = x
    for level in range(x.ragged_rank, 0, -1):
        if known is not None and int(known[level]) == 1:
            continue
        result = _with_rows_repeated(result, level, counts[level])
    rows = result.nrows()
    if known is None or int(known[0]) != 1:
        places = array_ops.tile(math_ops.range(rows), array_ops.reshape(counts[0], [1]))
        result = gather(result, places)
    if inner_rank and not (known is not None and (known[x.ragged_rank + 1 :] == 1).all()):
        inner = array_ops.concat([constant([1], kind), counts[x.ragged_rank + 1 :]], 0)
        result = result.with_flat_values(array_ops.tile(result.flat_values, inner))
    return result


def _with_rows_repeated(x: RaggedTensor, level: int, count: Any) -> Any:
    """Repeat the values of each row of a dimension, as a whole."""
    if level > 1:
        assert isinstance(x.values, RaggedTensor)
        return x.with_values(_with_rows_repeated(x.values, level - 1, count))
    kind = x.row_splits.dtype.base_dtype
    lengths = x.row_lengths()
    partition = RowPartition.from_row_lengths(lengths * count, validate=False)
    rowids = partition.value_rowids()
    own = array_ops.gather(lengths, rowids)
    at = math_ops.floormod(partition.offsets_in_rows(), math_ops.maximum(own, constant(1, kind)))
    values = gather(x.values, array_ops.gather(x.row_starts(), rowids) + at)
    return RaggedTensor._from_row_partition(values, partition, validate=False)


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Any:
    """Reverse the dimensions that are named.

    Raises:
        TypeError: the axis is no list; ValueError: it is out of bounds.
    """
    with name_scope(name, "Reverse"):
        x = convert_to_tensor_or_ragged_tensor(tensor)
        if not isinstance(axis, (list, tuple)):
            known = constant_value(convert_to_tensor(axis))
            if known is None or known.ndim != 1:
                raise TypeError(
                    "`axis` must be a list of int or a constant tensor when reversing axes in a ragged tensor"
                )
            axis = [int(a) for a in known]
        places = sorted({positive_axis(a, x.shape.rank) for a in axis})
        for place in places:
            x = _reversed(x, place)
        return x


def _reversed(x: Any, place: int) -> Any:
    if not isinstance(x, RaggedTensor):
        return array_ops.reverse(x, [place])
    if place > 1:
        return x.with_values(_reversed(x.values, place - 1))
    if place == 0:
        return gather(x, math_ops.range(x.nrows() - 1, -1, -1))
    at = array_ops.gather(x.row_starts() + x.row_limits() - 1, x.value_rowids()) - math_ops.range(
        x._row_partition.nvals()
    )
    return x.with_values(gather(x.values, at))


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Take x where the condition holds, else y, of ragged tensors with equal rows; without them find coordinates.

    A vector of conditions beside ragged tensors chooses rows.
    """
    if (x is None) != (y is None):
        raise ValueError("x and y must be either both None or both non-None")
    with name_scope(name, "RaggedWhere"):
        truth = convert_to_tensor_or_ragged_tensor(condition, name="condition")
        if x is None:
            return _coordinates(truth)
        a, b = convert_to_tensor_or_ragged_tensor(x, name="x"), convert_to_tensor_or_ragged_tensor(y, name="y")
        truth, a, b = match_row_splits_dtypes(truth, a, b)
        if (
            not isinstance(truth, RaggedTensor)
            and truth.shape.rank == 1
            and isinstance(a, RaggedTensor)
            and isinstance(b, RaggedTensor)
        ):
            return _rows_where(truth, a, b)
        if not any(isinstance(t, RaggedTensor) for t in (truth, a, b)):
            return array_ops.where(truth, a, b)
        if not isinstance(truth, RaggedTensor) and truth.shape.rank in (None, 1):
            return _rows_where(truth, a, b)
        same = broadcast_together(truth, a, b)
        rows = next(t for t in same if isinstance(t, RaggedTensor))
        flat = [t.flat_values if isinstance(t, RaggedTensor) else t for t in same]
        return rows.with_flat_values(array_ops.where_v2(*flat))


def where_v2(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Choose like `where`, with broadcasting, also of the condition."""
    if x is None and y is None:
        return where(condition, name=name)
    with name_scope(name, "RaggedWhere"):
        tensors = [convert_to_tensor_or_ragged_tensor(t) for t in (condition, x, y)]
        if not any(isinstance(t, RaggedTensor) for t in tensors):
            return array_ops.where_v2(*tensors)
        same = broadcast_together(*tensors)
        rows = next(t for t in same if isinstance(t, RaggedTensor))
        return rows.with_flat_values(
            array_ops.where_v2(*[t.flat_values if isinstance(t, RaggedTensor) else t for t in same])
        )


def _coordinates(truth: Any) -> Any:
    if not isinstance(truth, RaggedTensor):
        return array_ops.where(truth)
    sparse = truth.to_sparse()
    return array_ops.boolean_mask(sparse.indices, math_ops.cast(sparse.values, dtypes.bool_))


def _rows_where(truth: Any, x: Any, y: Any) -> Any:
    both = concat([x, y], axis=0)
    count = array_ops.shape(
        truth, out_type=both.row_splits.dtype.base_dtype if isinstance(both, RaggedTensor) else None or dtypes.int64
    )[0]
    first = math_ops.range(count)
    return gather(both, array_ops.where_v2(truth, first, first + count))


def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """Keep the elements (or rows) where the mask is true; inner dimensions of the mask become ragged ones.

    Raises:
        ValueError: a mask that is a scalar, of unknown rank, or of more dimensions than the data.
    """
    with name_scope(name, "RaggedMask"):
        truth = convert_to_tensor_or_ragged_tensor(mask, dtypes.bool_, name="mask")
        x = convert_to_tensor_or_ragged_tensor(data, name="data")
        x, truth = match_row_splits_dtypes(x, truth)
        rank = truth.shape.rank
        if rank is None:
            raise ValueError("mask.shape.ndims must be known statically")
        if rank == 0:
            raise ValueError("mask cannot be scalar")
        if isinstance(truth, RaggedTensor):
            if x.shape.rank is not None and x.shape.rank < rank:
                raise ValueError(f"mask has rank {rank}, data {x.shape.rank}")
            kind = truth.row_splits.dtype.base_dtype
            if not isinstance(x, RaggedTensor):
                x = RaggedTensor.from_tensor(x, ragged_rank=truth.ragged_rank, row_splits_dtype=kind)
            check = check_ops.assert_equal(
                x.row_splits, truth.row_splits, message="Inputs must have identical ragged splits"
            )
            with control_dependencies([check] if getattr(check, "type", "NoOp") != "NoOp" else []):
                if isinstance(truth.values, RaggedTensor):
                    kept = boolean_mask(x.values, truth.values)
                    return truth.with_values(kept)
                # How many of each row are kept.
                counts = math_ops.unsorted_segment_sum(
                    math_ops.cast(truth.values, kind), truth.value_rowids(), truth.nrows()
                )
                if truth.values.shape.rank == 1:
                    return RaggedTensor.from_row_lengths(boolean_mask(x.values, truth.values), counts, validate=False)
                return x.with_values(boolean_mask(x.values, truth.values))
        if isinstance(x, RaggedTensor):
            if rank == 1:
                places = array_ops.squeeze(array_ops.where(truth), [1])
                return gather(x, places)
            deep = RaggedTensor.from_tensor(truth, ragged_rank=rank - 1, row_splits_dtype=x.row_splits.dtype)
            return boolean_mask(x, deep)
        if rank == 1:
            return array_ops.boolean_mask(x, truth)
        kept = array_ops.boolean_mask(x, truth)
        flat = flatten_outer(truth, rank - 1)
        counts = math_ops.reduce_sum(math_ops.cast(flat, dtypes.int64), axis=1)
        rows = RaggedTensor.from_row_lengths(kept, counts, validate=False)
        if rank == 2:
            return rows
        outer = RaggedTensor.from_tensor(truth, ragged_rank=rank - 2)
        return RaggedTensor._from_nested_row_partitions(rows, outer._nested_row_partitions)


def ones_like(tensor: RaggedTensor, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Any:
    """Make ones in the same rows."""
    return tensor.with_flat_values(array_ops.ones_like(tensor.flat_values, dtype, name))


def zeros_like(tensor: RaggedTensor, dtype: Any = None, name: str | None = None, optimize: bool = True) -> Any:
    """Make zeros in the same rows."""
    return tensor.with_flat_values(array_ops.zeros_like(tensor.flat_values, dtype, name))


def identity(input: RaggedTensor, name: str | None = None) -> Any:
    """Pass on the same values in the same rows."""
    parts = [array_ops.identity(t) for t in input.components()]
    return input.with_components(iter(parts))


def one_hot(
    indices: RaggedTensor,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Any:
    """Make a vector of each place, along a new last dimension."""
    if axis is not None:
        rank = indices.shape.rank
        if not (isinstance(axis, int) and (axis == -1 or (rank is not None and axis >= rank))):
            raise ValueError("tf.one_hot of a ragged tensor: the axis must be the last")
    return indices.with_flat_values(array_ops.one_hot(indices.flat_values, depth, on_value, off_value, -1, dtype, name))


ragged_one_hot = one_hot


def dropout(
    x: RaggedTensor,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: Any = None,
    name: str | None = None,
    rate: Any = None,
) -> Any:
    """Drop values at random."""
    if noise_shape is not None:
        raise ValueError("noise_shape is not supported for ragged tensors")
    from dtfctl.runtime.ops import nn_ops

    return x.with_flat_values(nn_ops.dropout(x.flat_values, keep_prob=keep_prob, seed=seed, name=name, rate=rate))


def ragged_range(
    starts: Any,
    limits: Any = None,
    deltas: Any = 1,
    dtype: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> Any:
    """Make rows of numbers, each from its start to its limit by its step."""
    from dtfctl.runtime.framework.dtypes import as_dtype
    from dtfctl.runtime.framework.op_builder import apply_op_outputs

    if limits is None:
        starts, limits = 0, starts
    with name_scope(name, "RaggedRange") as scope:
        a = convert_to_tensor(starts, dtype, name="starts")
        b = convert_to_tensor(limits, dtype, name="limits")
        c = convert_to_tensor(deltas, dtype, name="deltas")
        if dtype is None:
            order = [dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64]
            wanted = max((t.dtype.base_dtype for t in (a, b, c)), key=lambda d: order.index(d) if d in order else -1)
            a, b, c = (math_ops.cast(t, wanted) for t in (a, b, c))
        splits, values = apply_op_outputs(
            "RaggedRange", scope, starts=a, limits=b, deltas=c, Tsplits=as_dtype(row_splits_dtype)
        )
        sizes = [d for t in (a, b, c) if t.shape.rank == 1 and (d := dimension_value(t.shape[0])) is not None]
        if sizes or all(t.shape.rank == 0 for t in (a, b, c)):
            splits.set_shape([(sizes or [1])[0] + 1])
        return RaggedTensor.from_row_splits(values, splits, validate=False)


def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Any:
    """Find the row of each value."""
    with name_scope(name, "RaggedSplitsToSegmentIds"):
        kind = out_type
        given = splits if hasattr(splits, "dtype") else convert_to_tensor(splits, dtypes.int64)
        tensor = convert_to_tensor(given, name="splits")
        if tensor.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
            raise ValueError("splits must have dtype int32 or int64")
        tensor.shape.assert_has_rank(1)
        if dimension_value(tensor.shape[0]) == 0:
            raise ValueError("Invalid row_splits: []")
        ids = RowPartition.from_row_splits(tensor, validate=False).value_rowids()
        return ids if kind is None else math_ops.cast(ids, kind)


def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: Any = None, out_type: Any = None, name: str | None = None
) -> Any:
    """Find where the rows of sorted row numbers begin, and the number of values last."""
    with name_scope(name, "SegmentIdsToRaggedSplits"):
        ids = convert_to_tensor(segment_ids, name="segment_ids")
        if not ids.dtype.base_dtype.is_integer:
            raise ValueError("segment_ids must be an integer tensor")
        if ids.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
            ids = math_ops.cast(ids, dtypes.int32)
        ids.shape.assert_has_rank(1)
        count = None if num_segments is None else math_ops.cast(convert_to_tensor(num_segments), ids.dtype.base_dtype)
        if count is not None:
            count.shape.assert_has_rank(0)
        splits = RowPartition.from_value_rowids(ids, count, validate=False).splits
        return math_ops.cast(splits, out_type or dtypes.int64)


_DEFAULT_CROSS_HASH_KEY = 0xDECAFCAFFE


def cross(inputs: Any, name: str | None = None) -> Any:
    """Cross features: all combinations of a row's values, joined by "_X_"."""
    return _crossed(inputs, False, 0, None, name)


def cross_hashed(inputs: Any, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None) -> Any:
    """Cross features and hash the combinations into buckets."""
    return _crossed(inputs, True, num_buckets, hash_key, name)


def _crossed(inputs: Any, hashed: bool, buckets: int, key: int | None, name: str | None) -> Any:
    from dtfctl.runtime.framework.convert import SparseTensor
    from dtfctl.runtime.framework.op_builder import apply_op_outputs

    if not isinstance(inputs, (list, tuple)):
        raise TypeError("Inputs must be a list")
    if hashed and buckets < 0:
        raise ValueError(f"Argument `num_buckets` should be >= 0. Received {buckets}.")

    def wide(t: Any) -> Any:
        return math_ops.cast(t, dtypes.int64) if t.dtype.is_integer else t

    ragged, sparse, dense, order = [], [], [], ""
    given = [
        SparseTensor.from_value(v) if hasattr(v, "dense_shape") else convert_to_tensor_or_ragged_tensor(v)
        for v in inputs
    ]
    for value in match_row_splits_dtypes(*given):
        if isinstance(value, RaggedTensor):
            if value.ragged_rank != 1:
                raise ValueError("tf.ragged.cross only supports inputs with rank=2")
            ragged.append(value)
            order += "R"
        elif isinstance(value, SparseTensor):
            sparse.append(value)
            order += "S"
        else:
            tensor = convert_to_tensor(value)
            if tensor.shape.rank not in (None, 2):
                raise ValueError("tf.ragged.cross only supports inputs with rank=2")
            dense.append(tensor)
            order += "D"
    kind = ragged[0].row_splits.dtype.base_dtype if ragged else dtypes.int64
    with name_scope(name, "RaggedCross"):
        values, splits = apply_op_outputs(
            "RaggedCross",
            ragged_values=[wide(t.values) for t in ragged],
            ragged_row_splits=[t.row_splits for t in ragged],
            sparse_indices=[t.indices for t in sparse],
            sparse_values=[wide(t.values) for t in sparse],
            sparse_shape=[t.dense_shape for t in sparse],
            dense_inputs=[wide(t) for t in dense],
            input_order=order,
            hashed_output=hashed,
            num_buckets=buckets,
            hash_key=_DEFAULT_CROSS_HASH_KEY if key is None else key,
            out_values_type=dtypes.int64 if hashed else dtypes.string,
            out_row_splits_type=kind,
        )
        splits.set_shape([None])
        values.set_shape([None])
        return RaggedTensor.from_row_splits(values, splits, validate=False)


def stack_dynamic_partitions(data: Any, partitions: Any, num_partitions: Any, name: str | None = None) -> Any:
    """Gather what has the same number into a row.

    Raises:
        ValueError: the shape of `partitions` does not begin that of `data`.
    """
    with name_scope(name, "SegmentStack"):
        x = convert_to_tensor_or_ragged_tensor(data, name="data")
        numbers = convert_to_tensor_or_ragged_tensor(partitions, name="partitions")
        count = convert_to_tensor(num_partitions, numbers.dtype.base_dtype)
        if isinstance(numbers, RaggedTensor):
            if not isinstance(x, RaggedTensor):
                kind = numbers.row_splits.dtype.base_dtype
                x = RaggedTensor.from_tensor(x, ragged_rank=numbers.ragged_rank, row_splits_dtype=kind)
            return stack_dynamic_partitions(x.values, numbers.values, num_partitions)
        rank = numbers.shape.rank
        if rank is None:
            raise ValueError("partitions must have known rank")
        if rank == 0:
            one = expand_dims(x, 0)
            return stack_dynamic_partitions(one, array_ops.expand_dims(numbers, 0), num_partitions)
        while rank > 1:
            x = x.values if isinstance(x, RaggedTensor) else flatten_outer(x, 2)
            numbers = flatten_outer(numbers, 2)
            rank -= 1
        from dtfctl.runtime.ops.sort_ops import argsort

        order = argsort(numbers, stable=True)
        message = "partitions must be less than num_partitions"
        checks = [
            check_ops.assert_less(numbers, count, message=message),
            check_ops.assert_non_negative(numbers, message="partitions must be non-negative"),
        ]
        with control_dependencies([c for c in checks if getattr(c, "type", "NoOp") != "NoOp"]):
            sorted_numbers = array_ops.gather(numbers, order)
        return RaggedTensor.from_value_rowids(gather(x, order), sorted_numbers, nrows=count, validate=False)
