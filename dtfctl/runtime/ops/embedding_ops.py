"""Embedding look-ups: rows of one table, or of a table cut over several variables."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.clip_ops import clip_by_norm
from dtfctl.runtime.ops.partitioned_variables import PartitionedVariable
from dtfctl.runtime.ops.sparse_ops.arranging import sparse_fill_empty_rows, sparse_reshape, sparse_retain
from dtfctl.runtime.ops.variables import ResourceVariable, Variable


def _gather(params: Any, ids: Tensor, name: str | None = None) -> Tensor:
    """Gather rows of a variable or tensor, read where it lives."""
    graph = context.get_default_graph()
    if isinstance(params, ResourceVariable):
        with graph.colocate_with(params.op):
            return params.sparse_read(ids, name)
    source = convert_to_tensor(params)
    with graph.colocate_with(source.op):
        return apply_op("GatherV2", params=source, indices=ids, axis=0, name=name)


def _parts(params: Any) -> list[Any]:
    if isinstance(params, PartitionedVariable):
        return list(params)
    return list(params) if isinstance(params, (list, tuple)) else [params]


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Tensor:
    """Look up the rows `ids` of an embedding.

    Args:
        params: a variable or tensor [rows, ...], a list of them, or a partitioned variable.
        ids: integers of any shape.
        partition_strategy: how a list holds the rows: "mod" deals them out in turn, "div" in contiguous blocks.
        max_norm: scale rows down to this L2 norm.

    Returns:
        shape(ids) + shape(row).

    Raises:
        ValueError: there are no params, or the strategy is unknown.
    """
    parts = _parts(params)
    if not parts:
        raise ValueError("Need at least one param")
    with name_scope(name, "embedding_lookup") as scope:
        index = convert_to_tensor(ids, name="ids")
        if len(parts) == 1:
            rows = _gather(parts[0], index, scope)
        else:
            rows = _partitioned(parts, index, partition_strategy, scope)
        if max_norm is not None:
            rank = index.shape.rank
            total = rows.shape.rank
            if rank is None or total is None:
                raise ValueError("max_norm needs ids and params of known rank")
            rows = clip_by_norm(rows, max_norm, axes=list(range(rank, total)))
        # A result by this name, also where the rows are read by an op of a variable.
        return apply_op("Identity", input=rows) if len(parts) == 1 else rows


def _partitioned(parts: list[Any], ids: Tensor, strategy: str, name: str) -> Tensor:
    count = len(parts)
    flat = apply_op("Reshape", tensor=ids, shape=[-1])
    number = constant(count, flat.dtype)
    positions = apply_op("Range", "range", start=0, limit=apply_op("Size", input=flat), delta=1)
    if strategy == "mod":
        owner = apply_op("FloorMod", x=flat, y=number)
        local = apply_op("FloorDiv", x=flat, y=number)
    elif strategy == "div":
        owner, local = _divided(parts, flat, number)
    else:
        raise ValueError(f"Unrecognized partition strategy: {strategy!r}. Must be one of 'mod' or 'div'.")
    owner = apply_op("Cast", x=owner, DstT=dtypes.int32)
    local_ids = apply_op_outputs("DynamicPartition", data=local, partitions=owner, num_partitions=count)
    where = apply_op_outputs("DynamicPartition", data=positions, partitions=owner, num_partitions=count)
    rows = [_gather(p, i) for p, i in zip(parts, local_ids)]
    joined = apply_op("ParallelDynamicStitch", name, indices=where, data=rows)
    element = convert_to_tensor(parts[0]).shape[1:] if not isinstance(parts[0], Variable) else parts[0].shape[1:]
    row_shape = apply_op("Shape", input=rows[0])
    tail = apply_op("StridedSlice", input=row_shape, begin=[1], end=[0], strides=[1], end_mask=1)
    shape = apply_op("ConcatV2", values=[apply_op("Shape", input=ids), tail], axis=0)
    result: Tensor = apply_op("Reshape", tensor=joined, shape=shape)
    if element.rank is not None:
        result.set_shape(ids.shape.concatenate(element))
    return result


def _divided(parts: list[Any], flat: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
    """Find owner and local row when part i holds a contiguous block, the first parts one row more."""
    sizes = [p.shape[0].value for p in parts]
    if None in sizes:
        raise ValueError("partition_strategy='div' needs parts with a known number of rows")
    total = constant(sum(sizes), flat.dtype)
    per = apply_op("FloorDiv", x=total, y=number)
    extra = apply_op("FloorMod", x=total, y=number)
    one = constant(1, flat.dtype)
    bigger = apply_op("AddV2", x=per, y=one)
    owner = apply_op(
        "Maximum",
        x=apply_op("FloorDiv", x=flat, y=bigger),
        y=apply_op("FloorDiv", x=apply_op("Sub", x=flat, y=extra), y=apply_op("Maximum", x=per, y=one)),
    )
    early = apply_op("Less", x=owner, y=extra)
    local = apply_op(
        "SelectV2",
        condition=early,
        t=apply_op("FloorMod", x=flat, y=bigger),
        e=apply_op("FloorMod", x=apply_op("Sub", x=flat, y=extra), y=apply_op("Maximum", x=per, y=one)),
    )
    return owner, local


def embedding_lookup_sparse(
    params: Any,
    sp_ids: SparseTensor,
    sp_weights: SparseTensor | None,
    partition_strategy: str = "mod",
    name: str | None = None,
    combiner: str | None = None,
    max_norm: Any = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Combine rows of an embedding per row of a sparse matrix of ids.

    Args:
        allow_fast_lookup: lookups may be combined in one op; they are here, where they can be, without it.
        sp_ids: int [batch, n]; every row needs at least one id (see `safe_embedding_lookup_sparse`).
        sp_weights: of the same form, or None for ones.
        combiner: "sum", "mean" (default) or "sqrtn".
    """
    combiner = combiner or "mean"
    if combiner not in ("mean", "sqrtn", "sum"):
        raise ValueError("combiner must be one of 'mean', 'sqrtn' or 'sum'")
    if not isinstance(sp_ids, SparseTensor):
        raise TypeError("sp_ids must be SparseTensor")
    with name_scope(name, "embedding_lookup_sparse") as scope:
        column = apply_op(
            "StridedSlice",
            input=sp_ids.indices,
            begin=[0, 0],
            end=[0, 1],
            strides=[1, 1],
            begin_mask=1,
            end_mask=1,
            shrink_axis_mask=2,
        )
        segments = apply_op("Cast", x=column, DstT=dtypes.int32)
        ids, positions = apply_op_outputs("Unique", x=sp_ids.values, out_idx=dtypes.int32)
        rows = embedding_lookup(params, ids, partition_strategy, max_norm=max_norm)
        if sp_weights is None:
            op = {"sum": "SparseSegmentSum", "mean": "SparseSegmentMean", "sqrtn": "SparseSegmentSqrtN"}[combiner]
            return apply_op(op, scope, data=rows, indices=positions, segment_ids=segments)
        weights = sp_weights.values
        if weights.dtype is not rows.dtype:
            weights = apply_op("Cast", x=weights, DstT=rows.dtype)
        picked = apply_op("GatherV2", params=rows, indices=positions, axis=0)
        ones = [1] * ((rows.shape.rank or 2) - 1)
        shape = apply_op("ConcatV2", values=[apply_op("Shape", input=weights), constant(ones, dtypes.int32)], axis=0)
        weighted = apply_op("Mul", x=picked, y=apply_op("Reshape", tensor=weights, shape=shape))
        if combiner == "sum":
            return apply_op("SegmentSum", scope, data=weighted, segment_ids=segments)
        total = apply_op("SegmentSum", data=weighted, segment_ids=segments)
        factor = weights if combiner == "mean" else apply_op("Mul", x=weights, y=weights)
        divisor = apply_op("SegmentSum", data=apply_op("Reshape", tensor=factor, shape=shape), segment_ids=segments)
        if combiner == "sqrtn":
            divisor = apply_op("Sqrt", x=divisor)
        return apply_op("DivNoNan", scope, x=total, y=divisor)


def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: SparseTensor,
    sparse_weights: SparseTensor | None = None,
    combiner: str = "mean",
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: Any = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Look up like `embedding_lookup_sparse` rows that may lack valid ids: these give `default_id`'s row, or zeros.

    Args:
        sparse_ids: ids of any rank; those below 0 are left out.
        sparse_weights: a weight for each; those that are not above 0 are left out, unless weights are summed.
        allow_fast_lookup: leave to use other ops for the same values, which is not made use of.

    Returns:
        A tensor of the ids' shape without the last dimension, and a row.
    """
    with name_scope(name, "embedding_lookup") as scope:
        shape = sparse_ids.dense_shape
        rank = shape.shape[0].value
        last = (array_ops.size(shape) if rank is None else rank) - 1
        ids = sparse_reshape(
            sparse_ids,
            [math_ops.reduce_prod(array_ops.slice(shape, [0], [last])), array_ops.gather(shape, last)],
        )
        weights = sparse_weights
        if weights is not None:
            weights = SparseTensor(ids.indices, weights.values, ids.dense_shape)
        ids, weights = _retained(ids, weights, by_weight=False)
        if combiner != "sum":
            ids, weights = _retained(ids, weights, by_weight=True)
        ids, empty = sparse_fill_empty_rows(ids, default_id or 0)
        if weights is not None:
            weights, _ = sparse_fill_empty_rows(weights, 1.0)
        own = None if default_id is None else scope
        result = embedding_lookup_sparse(embedding_weights, ids, weights, partition_strategy, own, combiner, max_norm)
        if default_id is None:
            wide = array_ops.stack([1, array_ops.shape(result)[1]])
            empty = array_ops.tile(array_ops.reshape(empty, [-1, 1]), wide)
            result = array_ops.where(empty, array_ops.zeros_like(result), result, name=scope)
        outer = array_ops.slice(math_ops.cast(shape, dtypes.int32), [0], [last])
        inner = array_ops.slice(array_ops.shape(result), [1], [-1])
        final = array_ops.reshape(result, array_ops.concat([outer, inner], 0))
        if rank is not None:
            final.set_shape(TensorShape([None] * (rank - 1)).concatenate(result.shape[1:]))
        return final


def _retained(ids: SparseTensor, weights: SparseTensor | None, by_weight: bool) -> tuple[Any, Any]:
    """Leave ids out that are below 0, or whose weights are not above it."""
    if by_weight and weights is None:
        return ids, weights
    if by_weight and weights is not None:
        valid = math_ops.greater(weights.values, 0)
    else:
        valid = math_ops.greater_equal(ids.values, 0)
        if weights is not None:
            valid = math_ops.logical_and(valid, array_ops.ones_like(weights.values, dtype=dtypes.bool_))
    return sparse_retain(ids, valid), None if weights is None else sparse_retain(weights, valid)
