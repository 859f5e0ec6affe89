"""Rows and elements of ragged tensors by their places."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.ragged_ops.dimensions import expand_dims
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import (
    RaggedTensor,
    convert_to_tensor_or_ragged_tensor,
    match_row_splits_dtypes,
    row_count,
)


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Any:
    """Gather rows (or what is along `axis`) of tensors, ragged or not, by places that are ragged or not.

    Raises:
        ValueError: an unknown rank, or the axis is before the batch dimensions.
    """
    with name_scope(name, "RaggedGather"):
        places = convert_to_tensor_or_ragged_tensor(indices, preferred_dtype=dtypes.int32, name="indices")
        rows = params if hasattr(params, "sparse_read") else convert_to_tensor_or_ragged_tensor(params, name="params")
        rows, places = match_row_splits_dtypes(rows, places)
        if batch_dims and batch_dims < 0:
            if places.shape.rank is None:
                raise ValueError("batch_dims may only be negative if rank(indices) is statically known.")
            batch_dims += places.shape.rank
        at = batch_dims if axis is None else int(axis)
        if at < 0:
            if rows.shape.rank is None:
                raise ValueError("axis may only be negative if rank(params) is statically known.")
            at += rows.shape.rank
        if at < batch_dims:
            raise ValueError(f"axis ({at}) must be greater than or equal to batch_dims ({batch_dims})")
        return _gathered(rows, places, at, batch_dims)


def _gathered(params: Any, indices: Any, axis: int, batch_dims: int) -> Any:
    if not isinstance(params, RaggedTensor) and not isinstance(indices, RaggedTensor):
        return array_ops.gather(params, indices, axis=axis, batch_dims=batch_dims)
    if batch_dims:
        return _in_batches(params, indices, axis, batch_dims)
    if axis:
        return _inside(params, indices, axis)
    if isinstance(indices, RaggedTensor):
        return indices.with_values(_gathered(params, indices.values, 0, 0))
    rank = indices.shape.rank
    if rank is None:
        raise ValueError("rank(indices) must be known statically")
    nested = list(params.nested_row_splits)
    places = (
        math_ops.cast(indices, nested[0].dtype.base_dtype)
        if indices.dtype not in (dtypes.int32, dtypes.int64)
        else indices
    )
    outputs = apply_op_outputs(
        "RaggedGather",
        params_nested_splits=nested,
        params_dense_values=params.flat_values,
        indices=places,
        OUTPUT_RAGGED_RANK=len(nested) + rank - 1,
    )
    flat = outputs[-1]
    inner = params.flat_values.shape.dims_or_none
    if inner is not None:
        flat.set_shape([None, *inner[1:]])
    if len(outputs) == 1:
        return flat
    dims = indices.shape.dims_or_none
    if dims and dims[0] is not None:
        outputs[0].set_shape([dims[0] + 1])
    return RaggedTensor.from_nested_row_splits(flat, outputs[:-1], validate=False)


def _in_batches(params: Any, indices: Any, axis: int, batch_dims: int) -> Any:
    """Gather within each row: places among all values are places in the row, and where the row begins."""
    if batch_dims > 1:
        if not isinstance(params, RaggedTensor):
            params = _as_rows(params, indices)
        if not isinstance(indices, RaggedTensor):
            indices = _as_rows(indices, params)
        return indices.with_values(_gathered(params.values, indices.values, axis - 1, batch_dims - 1))
    if axis > 1:
        if not isinstance(params, RaggedTensor):
            params = _as_rows(params, indices)
        if not isinstance(indices, RaggedTensor):
            indices = _as_rows(indices, params)
        # Each value of a row is gathered from by the row's places.
        repeated = _gathered(indices, params.value_rowids(), 0, 0)
        return params.with_values(_gathered(params.values, repeated, axis - 1, 1))
    if not isinstance(params, RaggedTensor):
        params = _as_rows(params, indices)
    starts = params.row_starts()
    lengths = params.row_lengths()
    if isinstance(indices, RaggedTensor):
        kind = starts.dtype.base_dtype
        places = indices.with_flat_values(math_ops.cast(indices.flat_values, kind))
        base = _spread(places, starts)
        bound = _spread(places, lengths)
        flat = _checked(places.flat_values, bound) + base
        return _gathered(params.values, places.with_flat_values(flat), 0, 0)
    rank = indices.shape.rank
    if rank is None:
        raise ValueError("rank(indices) must be known statically")
    wide = array_ops.reshape(starts, [-1] + [1] * (rank - 1))
    bound = array_ops.reshape(lengths, [-1] + [1] * (rank - 1))
    flat = _checked(math_ops.cast(indices, starts.dtype.base_dtype), bound) + wide
    return _gathered(params.values, flat, 0, 0)


def _checked(places: Tensor, bound: Tensor) -> Tensor:
    """Send places outside their row outside of all rows, where gathering refuses them."""
    fits = math_ops.logical_and(
        math_ops.greater_equal(places, constant(0, places.dtype.base_dtype)), math_ops.less(places, bound)
    )
    far = constant(-(2**30), places.dtype.base_dtype)
    return array_ops.where_v2(fits, places, array_ops.zeros_like(places) + far)


def _spread(ragged: RaggedTensor, by_row: Tensor) -> Tensor:
    """Give each innermost value what its outermost row has."""
    for partition in ragged._nested_row_partitions:
        by_row = array_ops.gather(by_row, partition.value_rowids())
    extra = (ragged.flat_values.shape.rank or 1) - 1
    return array_ops.reshape(by_row, [-1] + [1] * extra) if extra else by_row


def _as_rows(tensor: Any, like: Any) -> RaggedTensor:
    kind = like.row_splits.dtype.base_dtype if isinstance(like, RaggedTensor) else dtypes.int64
    result: RaggedTensor = RaggedTensor.from_tensor(tensor, ragged_rank=1, row_splits_dtype=kind)
    return result


def _inside(params: Any, indices: Any, axis: int) -> Any:
    """Gather along a dimension that is not the first, the same places in all rows."""
    if not isinstance(params, RaggedTensor):
        params = _as_rows(params, indices)
    if axis > 1:
        return params.with_values(_gathered(params.values, indices, axis - 1, 0))
    rows = params.nrows()
    if isinstance(indices, RaggedTensor):
        each: Any = _repeated(indices, rows)
    else:
        rank = indices.shape.rank
        if rank is None:
            raise ValueError("rank(indices) must be known statically")
        shape = array_ops.concat([array_ops.reshape(rows, [1]), array_ops.shape(indices, out_type=rows.dtype)], 0)
        each = array_ops.broadcast_to(indices, shape)
        each.set_shape([params._row_partition.static_nrows, *indices.shape.as_list()])
    return _in_batches(params, each, 1, 1)


def _repeated(tensor: RaggedTensor, count: Tensor) -> Any:
    """Put the whole tensor so many times into a new outermost dimension."""
    whole = expand_dims(tensor, 0)
    return _gathered(whole, array_ops.fill(array_ops.reshape(count, [1]), constant(0, count.dtype.base_dtype)), 0, 0)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Any:
    """Gather along the last dimension of the places, row by row."""
    with name_scope(name, "RaggedBatchGather"):
        places = convert_to_tensor_or_ragged_tensor(indices, preferred_dtype=dtypes.int32)
        if places.shape.rank is None:
            raise ValueError("batch_gather does not allow indices with unknown shape.")
        return gather(params, places, batch_dims=places.shape.rank - 1)


def gather_nd(
    params: Any, indices: Any, batch_dims: int = 0, name: str | None = None, bad_indices_policy: str = ""
) -> Any:
    """Gather elements or slices of a ragged tensor at coordinates.

    Raises:
        ValueError: batch dimensions, places of an unknown innermost size, or another policy than to fail.
    """
    if bad_indices_policy not in ("", "DEFAULT", "ERROR"):
        raise ValueError("bad_indices_policy is not supported for ragged gather: out of bounds is an error")
    if not isinstance(batch_dims, int) or batch_dims:
        raise ValueError("batch_dims != 0 is not supported for ragged gather yet.")
    with name_scope(name, "RaggedGatherNd"):
        rows = convert_to_tensor_or_ragged_tensor(params, name="params")
        places = convert_to_tensor_or_ragged_tensor(indices, name="indices")
        if isinstance(places, RaggedTensor):
            inner = places.flat_values.shape.rank
            if inner is None or inner < 2:
                raise ValueError("The innermost dimension of indices may not be ragged")
            return places.with_flat_values(gather_nd(rows, places.flat_values))
        if not isinstance(rows, RaggedTensor):
            return array_ops.gather_nd(rows, places)
        dims = places.shape.dims_or_none
        if dims is None or dims[-1] is None:
            raise ValueError("indices.shape[-1] must be statically known.")
        size = dims[-1]
        if len(dims) > 2:
            outer = RaggedTensor.from_tensor(places, ragged_rank=len(dims) - 2)
            return outer.with_flat_values(gather_nd(rows, outer.flat_values))
        if len(dims) == 1:
            found = gather_nd(rows, array_ops.expand_dims(places, 0))
            return found[0]
        if size == 0:
            count = row_count(places)
            return _repeated(rows, count)
        current: Any = rows
        at = math_ops.cast(places[:, 0], rows.row_splits.dtype.base_dtype)
        for column in range(1, size):
            if not isinstance(current, RaggedTensor):
                rest = array_ops.concat([array_ops.expand_dims(at, 1), math_ops.cast(places[:, column:], at.dtype)], 1)
                return array_ops.gather_nd(current, rest)
            own = math_ops.cast(places[:, column], at.dtype)
            begin = array_ops.gather(current.row_starts(), at)
            own = _checked(own, array_ops.gather(current.row_lengths(), at))
            at = begin + own
            current = current.values
        return _gathered(current, at, 0, 0)


def embedding_lookup(params: Any, ids: Any, **kwargs: Any) -> Any:
    """Look up the embeddings of ragged ids."""
    from dtfctl.runtime.ops import embedding_ops

    return ids.with_flat_values(embedding_ops.embedding_lookup(params, ids.flat_values, **kwargs))


def gather_v1(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Any:
    """Gather like `gather`, with the order of arguments of `tf.gather`."""
    return gather(params, indices, validate_indices, axis, batch_dims, name)


def gather_nd_v1(params: Any, indices: Any, name: str | None = None, batch_dims: int = 0) -> Any:
    """Gather like `gather_nd`, with the order of arguments of `tf.gather_nd`."""
    return gather_nd(params, indices, batch_dims, name)
