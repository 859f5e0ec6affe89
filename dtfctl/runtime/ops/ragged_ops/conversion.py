"""From dense and sparse tensors to ragged ones and back, and between ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import control_dependencies, name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs, make_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape, as_shape
from dtfctl.runtime.ops import array_ops, check_ops, math_ops
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import (
    RaggedTensor,
    convert_to_tensor_or_ragged_tensor,
    method_of_ragged_tensors,
)
from dtfctl.runtime.ops.ragged_ops.row_partition import RowPartition


@method_of_ragged_tensors("from_tensor", of_class=True)
def from_tensor(
    tensor: Any,
    lengths: Any = None,
    padding: Any = None,
    ragged_rank: int = 1,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> Any:
    """Make a ragged tensor of a dense one: rows cut to `lengths`, or without their trailing `padding`.

    Raises:
        ValueError: both `lengths` and `padding`; a tensor of unknown rank or of rank <= ragged_rank.
    """
    kind = as_dtype(row_splits_dtype)
    if lengths is not None and padding is not None:
        raise ValueError("Specify argument `lengths` or `padding`, but not both.")
    if not isinstance(ragged_rank, int):
        raise TypeError(f"Argument `ragged_rank` must be an int. Received {ragged_rank}.")
    if ragged_rank <= 0:
        raise ValueError(f"Argument `ragged_rank` must be greater than 0. Received {ragged_rank}.")
    with name_scope(name, "RaggedFromTensor"):
        x = convert_to_tensor(tensor, name="tensor")
        if x.shape.rank is not None and x.shape.rank <= ragged_rank:
            raise ValueError(
                f"The tensor must have rank greater than `ragged_rank`. Received tensor with rank {x.shape.rank} and "
                f"ragged_rank {ragged_rank}."
            )
        if lengths is not None and not hasattr(lengths, "dtype") and _is_nested(lengths):
            return _cut_nested(x, [convert_to_tensor(v, kind) for v in lengths], ragged_rank)
        if padding is not None:
            lengths = _lengths_without(x, padding, ragged_rank, kind)
        if lengths is None:
            return _uniform(x, ragged_rank, kind)
        return _cut(x, math_ops.cast(convert_to_tensor(lengths, name="lengths"), kind), ragged_rank)


def _is_nested(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple))
        and bool(value)
        and all(isinstance(v, (list, tuple, Tensor, np.ndarray)) for v in value)
        and not (isinstance(value[0], Tensor) and value[0].shape.rank == 0)
    )


def _uniform(x: Tensor, ragged_rank: int, kind: Any) -> Any:
    """Take dimensions as they are: rows of one length."""
    dims = array_ops.shape(x, out_type=kind)
    static = x.shape.dims_or_none
    partitions = []
    for axis in range(ragged_rank):
        known = None if static is None else static[: axis + 1]
        rows = (
            constant(int(np.prod([d for d in known if d is not None])), kind)
            if known is not None and None not in known
            else math_ops.reduce_prod(dims[: axis + 1])
        )
        size = None if static is None else static[axis + 1]
        length = dims[axis + 1] if size is None else constant(size, kind)
        partitions.append(RowPartition.from_uniform_row_length(length, nvals=rows * length, nrows=rows, validate=False))
    return RaggedTensor._from_nested_row_partitions(flatten_outer(x, ragged_rank + 1), partitions)


def flatten_outer(x: Tensor, count: int) -> Tensor:
    """Make one dimension of the first `count`."""
    static = x.shape.dims_or_none
    if static is not None and None not in static[count:]:
        flat = array_ops.reshape(x, [-1, *static[count:]])
        if 0 in static[count:]:  # -1 tells nothing there
            dims = array_ops.shape(x)
            return array_ops.reshape(x, array_ops.concat([[math_ops.reduce_prod(dims[:count])], dims[count:]], 0))
        if None not in static[:count]:
            flat.set_shape([int(np.prod([d for d in static[:count] if d is not None])), *static[count:]])
        return flat
    dims = array_ops.shape(x)
    flat = array_ops.reshape(x, array_ops.concat([[math_ops.reduce_prod(dims[:count])], dims[count:]], 0))
    if static is not None:
        flat.set_shape([None, *static[count:]])
    return flat


def _cut(x: Tensor, lengths: Tensor, ragged_rank: int) -> Any:
    """Cut the rows of the last ragged dimension to these lengths."""
    lengths.shape.assert_has_rank(1) if ragged_rank == 1 else None
    if ragged_rank > 1:
        if lengths.shape.rank not in (None, 1):
            raise ValueError(f"Shape {lengths.shape} must have rank 1")
        outer = _uniform(x, ragged_rank - 1, lengths.dtype.base_dtype)
        return (
            outer.with_values(_cut(outer.values if ragged_rank == 2 else outer.flat_values, lengths, 1))
            if (ragged_rank == 2)
            else outer.with_flat_values(_cut(outer.flat_values, lengths, 1))
        )
    kind = lengths.dtype.base_dtype
    size = array_ops.shape(x, out_type=kind)[1]
    kept = math_ops.minimum(math_ops.maximum(lengths, constant(0, kind)), size)
    mask = array_ops.sequence_mask(kept, size)
    values = array_ops.boolean_mask(x, mask)
    if x.shape.rank is not None:
        values.set_shape([None, *x.shape.as_list()[2:]])
    return RaggedTensor.from_row_lengths(values, kept, validate=False)


def _cut_nested(x: Tensor, lengths: Sequence[Tensor], ragged_rank: int) -> Any:
    """Cut each of several dimensions, the outermost first; inner lengths are of the rows that are left."""
    if ragged_rank not in (1, len(lengths)):
        raise ValueError("If Argument `lengths` is a tuple of row_lengths, argument `ragged_rank` must be len(lengths)")
    if x.shape.rank is not None and x.shape.rank <= len(lengths):
        raise ValueError(f"Shape {x.shape} must have rank at least {len(lengths) + 1}")
    partitions = []
    values = x
    for part in lengths:
        cut = _cut(values, part, 1)
        partitions.append(cut._row_partition)
        values = cut.values
    return RaggedTensor._from_nested_row_partitions(values, partitions)


def _lengths_without(x: Tensor, padding: Any, ragged_rank: int, kind: Any) -> Tensor:
    """Count what is before the trailing padding in each row of the last ragged dimension."""
    pad = convert_to_tensor(padding, x.dtype.base_dtype, name="padding")
    if pad.shape.rank is not None and x.shape.rank is not None:
        x.shape[ragged_rank + 1 :].assert_is_compatible_with(pad.shape)
    flat = flatten_outer(x, ragged_rank)
    differs = math_ops.not_equal(flat, pad)
    rank = flat.shape.rank
    if rank is None:
        inner = array_ops.rank(flat)
        differs = math_ops.reduce_any(differs, axis=math_ops.range(2, inner))
    elif rank > 2:
        differs = math_ops.reduce_any(differs, axis=list(range(2, rank)))
    places = math_ops.range(array_ops.shape(flat, out_type=kind)[1]) + constant(1, kind)
    lengths = math_ops.cast(differs, kind) * places
    ends = math_ops.reduce_max(lengths, axis=1)
    return math_ops.maximum(ends, constant(0, kind))


@method_of_ragged_tensors("from_sparse", of_class=True)
def from_sparse(st_input: Any, name: str | None = None, row_splits_dtype: Any = dtypes.int64) -> Any:
    """Make a ragged tensor of a sparse matrix whose rows have their values at the left.

    Raises:
        TypeError: no SparseTensor; ValueError: not of rank 2; InvalidArgumentError (in a step): gaps in a row.
    """
    source = st_input
    kind = as_dtype(row_splits_dtype)
    if not isinstance(source, SparseTensor):
        if not hasattr(source, "dense_shape"):
            raise TypeError(f"Argument `st_input` must be of type SparseTensor, but got {type(source).__name__}")
        source = SparseTensor.from_value(source)
    with name_scope(name, "RaggedFromSparse"):
        static = source.dense_shape.shape.dims_or_none
        known = source.indices.shape.dims_or_none
        rank = next((d for d in ((static or [None])[0], (known or [None, None])[1]) if d is not None), None)
        if rank is not None and rank != 2:
            raise ValueError("rank(st_input) must be 2.")
        indices = source.indices
        columns = indices[:, 1]
        rows = indices[:, 0]
        first = array_ops.concat([constant([True]), math_ops.not_equal(rows[1:], rows[:-1])], 0)[
            : array_ops.shape(rows)[0]
        ]
        # A row starts at column 0; what follows stands one further to the right.
        before = array_ops.concat([constant([-1], dtypes.int64), columns[:-1]], 0)[: array_ops.shape(rows)[0]]
        wanted = array_ops.where(first, array_ops.zeros_like(columns), before + 1)
        check = check_ops.assert_equal(columns, wanted, message="SparseTensor is not right-ragged")
        with control_dependencies([check] if getattr(check, "type", "NoOp") != "NoOp" else []):
            ids = math_ops.cast(rows, kind)
            count = math_ops.cast(source.dense_shape[0], kind)
            return RaggedTensor.from_value_rowids(source.values, ids, count, validate=False)


@method_of_ragged_tensors("to_tensor")
def to_tensor(source: RaggedTensor, default_value: Any = None, name: str | None = None, shape: Any = None) -> Tensor:
    """Fill rows up with `default_value` (zero or empty when None) to a dense tensor.

    Args:
        shape: of the result; rows are cut where it is less than the longest.
    """
    with name_scope(name, "RaggedToTensor") as scope:
        flat = source.flat_values
        kind = flat.dtype.base_dtype
        default = _zero(kind) if default_value is None else convert_to_tensor(default_value, kind, name="default_value")
        wanted = _shape_tensor(source, shape)
        if default.shape.rank is not None and flat.shape.rank is not None and default.shape.rank > flat.shape.rank - 1:
            raise ValueError(
                f"default_value.shape={default.shape} and rt_input.flat_values.shape={flat.shape} are incompatible"
            )
        out = apply_op(
            "RaggedTensorToTensor",
            scope,
            shape=wanted,
            values=flat,
            default_value=default,
            row_partition_types=["ROW_SPLITS"] * source.ragged_rank,
            row_partition_tensors=list(source.nested_row_splits),
        )
        have = source.shape
        if shape is not None and not isinstance(shape, Tensor):
            given = as_shape(shape)
            if given.rank is not None and have.rank is not None:
                have = TensorShape([g if g is not None else h for g, h in zip(given.as_list(), have.as_list())])
            elif given.rank is not None:
                have = given
            out.set_shape(have)
        elif shape is None:
            out.set_shape(have)
        return out


def _zero(dtype: Any) -> Tensor:
    return constant("" if dtype is dtypes.string else np.zeros((), dtype.as_numpy_dtype), dtype)


def _shape_tensor(source: RaggedTensor, shape: Any) -> Tensor:
    if shape is None:
        return constant(-1, dtypes.int64)
    if isinstance(shape, Tensor):
        return shape
    given = as_shape(shape)
    if given.rank is None:
        return constant(-1, dtypes.int64)
    if source.shape.rank is not None and given.rank != source.shape.rank:
        raise ValueError(f"Shapes {given} and {source.shape} are incompatible: shape and the ragged tensor's")
    return constant([-1 if d is None else d for d in given.as_list()], dtypes.int64)


@method_of_ragged_tensors("to_sparse")
def to_sparse(source: RaggedTensor, name: str | None = None) -> SparseTensor:
    """Make a sparse tensor of the same values."""
    with name_scope(name, "RaggedToSparse"):
        indices, values, shape = apply_op_outputs(
            "RaggedTensorToSparse", rt_nested_splits=list(source.nested_row_splits), rt_dense_values=source.flat_values
        )
        rank = source.shape.rank
        indices.set_shape([None, rank])
        shape.set_shape([rank])
        return SparseTensor(indices, values, shape)


@method_of_ragged_tensors("_to_variant")
def to_variant(source: Any, batched_input: bool = False, name: str | None = None) -> Tensor:
    """Put a ragged or dense tensor, or each of its rows, into variants."""
    nested = list(source.nested_row_splits) if isinstance(source, RaggedTensor) else []
    flat = source.flat_values if isinstance(source, RaggedTensor) else source
    arguments: dict[str, Any] = {} if nested else {"Tsplits": dtypes.int64}
    out = apply_op(
        "RaggedTensorToVariant",
        name,
        rt_nested_splits=nested,
        rt_dense_values=flat,
        batched_input=batched_input,
        **arguments,
    )
    out.set_shape([source.shape.dims_or_none[0] if source.shape.rank else None] if batched_input else [])
    return out


@method_of_ragged_tensors("_from_variant", of_class=True)
def from_variant(
    variant: Any,
    dtype: Any,
    output_ragged_rank: int,
    input_ragged_rank: int | None = None,
    row_splits_dtype: Any = dtypes.int64,
    name: str | None = None,
) -> Any:
    """Make a ragged tensor of what `to_variant` gave; dimensions of the variants' tensor are outer ones."""
    encoded = convert_to_tensor(variant, dtypes.variant, name="variant")
    if (
        encoded.shape.rank is not None
        and input_ragged_rank is not None
        and output_ragged_rank != input_ragged_rank + encoded.shape.rank
    ):
        raise ValueError(
            f"Argument `output_ragged_rank` ({output_ragged_rank}) must be equal to `input_ragged_rank` + "
            f"`variant.shape.ndims` ({input_ragged_rank} + {encoded.shape.rank})."
        )
    op = make_op(
        "RaggedTensorFromVariant",
        name,
        encoded_ragged=encoded,
        input_ragged_rank=-1 if input_ragged_rank is None else input_ragged_rank,
        output_ragged_rank=max(output_ragged_rank, 0),
        Tvalues=as_dtype(dtype),
        Tsplits=as_dtype(row_splits_dtype),
    )
    outputs = list(op.outputs)
    for splits in outputs[:-1]:
        splits.set_shape([None])
    if output_ragged_rank == 0:
        return outputs[-1]
    return RaggedTensor.from_nested_row_splits(outputs[-1], outputs[:-1], validate=False)


@method_of_ragged_tensors("merge_dims")
def merge_dims(source: Any, outer_axis: int, inner_axis: int) -> Any:
    """Make one dimension of those from `outer_axis` to `inner_axis`, of a tensor ragged or not."""
    x = convert_to_tensor_or_ragged_tensor(source)
    rank = x.shape.rank
    outer = positive_axis(outer_axis, rank, "outer_axis")
    inner = positive_axis(inner_axis, rank, "inner_axis")
    if outer > inner:
        raise ValueError(f"Expected outer_axis ({outer_axis}) to be less than or equal to inner_axis ({inner_axis})")
    return _merged(x, outer, inner)


def _merged(x: Any, outer: int, inner: int) -> Any:
    if outer == inner:
        return x
    if outer == 0 and isinstance(x, RaggedTensor):
        return _merged(x.values, 0, inner - 1)
    if isinstance(x, RaggedTensor):
        if outer > 1:
            return x.with_values(_merged(x.values, outer - 1, inner - 1))
        # The rows of rows become rows: their splits are those of the inner ones where the outer ones are.
        below = x.values
        if inner > 2:
            below = _merged(below, 1, inner - 1)
        if isinstance(below, RaggedTensor):
            splits = array_ops.gather(below.row_splits, x.row_splits)
            return RaggedTensor.from_row_splits(below.values, splits, validate=False)
        width = array_ops.shape(below, out_type=x.row_splits.dtype.base_dtype)[1]
        return RaggedTensor.from_row_splits(flatten_outer(below, 2), x.row_splits * width, validate=False)
    dims = array_ops.shape(x)
    merged = array_ops.reshape(
        x, array_ops.concat([dims[:outer], [math_ops.reduce_prod(dims[outer : inner + 1])], dims[inner + 1 :]], 0)
    )
    static = x.shape.dims_or_none
    if static is not None:
        middle = static[outer : inner + 1]
        size = None if None in middle else int(np.prod([d for d in middle if d is not None]))
        merged.set_shape([*static[:outer], size, *static[inner + 1 :]])
    return merged


def positive_axis(axis: Any, rank: int | None, name: str = "axis") -> int:
    """Count an axis from the front.

    Raises:
        TypeError: no int; ValueError: negative where the rank is unknown, or out of bounds.
    """
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
        known = constant_value(axis) if isinstance(axis, Tensor) else None
        if known is None:
            raise TypeError(f"{name} must be an int; got {type(axis).__name__}")
        axis = int(known)
    if axis < 0 and rank is None:
        raise ValueError(f"{name}={axis} may only be negative if ndims is statically known.")
    if rank is not None and not -rank <= axis < rank:
        raise ValueError(f"{name}={axis} out of bounds: expected {-rank}<={name}<{rank}")
    return int(axis) + (rank or 0 if axis < 0 else 0)
