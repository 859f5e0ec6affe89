"""The same values in other places: order, shape, parts, rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes, nest
from dtfctl.runtime.framework.convert import SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_nested, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.sparse_ops.common import as_sparse


def sparse_reorder(sp_input: Any, name: str | None = None) -> SparseTensor:
    """Sort the indices of a SparseTensor in row-major order."""
    sp = as_sparse(sp_input)
    indices, values = apply_op_outputs(
        "SparseReorder", name, input_indices=sp.indices, input_values=sp.values, input_shape=sp.dense_shape
    )
    return SparseTensor(indices, values, sp.dense_shape)


def sparse_reshape(sp_input: Any, shape: Any, name: str | None = None) -> SparseTensor:
    """Arrange the same elements in another dense shape."""
    sp = as_sparse(sp_input)
    symbolic = any(isinstance(size, Tensor) for size in nest.flatten(shape))
    wanted = convert_to_tensor(shape if symbolic else np.asarray(shape, np.int64), name="shape")
    indices, dense = apply_op_outputs(
        "SparseReshape",
        name,
        input_indices=sp.indices,
        input_shape=sp.dense_shape,
        new_shape=math_ops.cast(wanted, dtypes.int64),
    )
    return SparseTensor(indices, array_ops.identity(sp.values), dense)


def sparse_concat(
    axis: int,
    sp_inputs: Sequence[Any],
    name: str | None = None,
    expand_nonconcat_dim: bool = False,
    concat_dim: int | None = None,
    expand_nonconcat_dims: bool | None = None,
) -> SparseTensor:
    """Put SparseTensors one after the other along an axis."""
    expand_nonconcat_dim = expand_nonconcat_dim if expand_nonconcat_dims is None else expand_nonconcat_dims
    axis = axis if concat_dim is None else concat_dim
    parts = [as_sparse(s) for s in sp_inputs]
    if len(parts) == 1:
        return parts[0]
    shapes = [p.dense_shape for p in parts]
    if expand_nonconcat_dim:
        largest = apply_op("Max", input=array_ops.stack(shapes), reduction_indices=[0])
        rank = shapes[0].shape.num_elements()
        if rank is None:
            raise ValueError("expand_nonconcat_dim needs sparse tensors of known rank")
        at = axis % rank
        shapes = [array_ops.concat([largest[:at], s[at : at + 1], largest[at + 1 :]], 0) for s in shapes]
    out = apply_op_outputs(
        "SparseConcat",
        name,
        indices=[p.indices for p in parts],
        values=[p.values for p in parts],
        shapes=shapes,
        concat_dim=axis,
    )
    return SparseTensor(*out)


def sparse_split(
    keyword_required: Any = None,
    sp_input: Any = None,
    num_split: int | None = None,
    axis: Any = None,
    name: str | None = None,
    split_dim: Any = None,
) -> list[SparseTensor]:
    """Cut a SparseTensor into parts along an axis."""
    axis = split_dim if axis is None else axis
    if sp_input is None or num_split is None or axis is None:
        raise ValueError("sparse_split needs sp_input, num_split and axis by keyword")
    sp = as_sparse(sp_input)
    indices, values, shapes = apply_op_nested(
        "SparseSplit",
        name,
        split_dim=convert_to_tensor(axis, dtypes.int64),
        indices=sp.indices,
        values=sp.values,
        shape=sp.dense_shape,
        num_split=num_split,
    )
    return [SparseTensor(*t) for t in zip(indices, values, shapes)]


def sparse_slice(sp_input: Any, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """Cut out the part of `size` elements from `start` along each axis."""
    sp = as_sparse(sp_input)
    out = apply_op_outputs(
        "SparseSlice",
        name,
        indices=sp.indices,
        values=sp.values,
        shape=sp.dense_shape,
        start=convert_to_tensor(start, dtypes.int64),
        size=convert_to_tensor(size, dtypes.int64),
    )
    return SparseTensor(*out)


def sparse_fill_empty_rows(sp_input: Any, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """Put a default entry in each empty row of a SparseTensor; give which rows were empty too."""
    sp = as_sparse(sp_input)
    default = convert_to_tensor(default_value, sp.dtype.base_dtype)
    indices, values, empty, _ = apply_op_outputs(
        "SparseFillEmptyRows",
        name,
        indices=sp.indices,
        values=sp.values,
        dense_shape=sp.dense_shape,
        default_value=default,
    )
    return SparseTensor(indices, values, sp.dense_shape), empty


def sparse_retain(sp_input: Any, to_retain: Any) -> SparseTensor:
    """Keep only the values where `to_retain` is true."""
    sp = as_sparse(sp_input)
    keep = convert_to_tensor(to_retain)
    where = array_ops.reshape(apply_op("Where", input=keep), [-1])
    return SparseTensor(array_ops.gather(sp.indices, where), array_ops.gather(sp.values, where), sp.dense_shape)


def sparse_reset_shape(sp_input: Any, new_shape: Any = None) -> SparseTensor:
    """Give the same entries another (or the tightest) dense shape."""
    sp = as_sparse(sp_input)
    indices, values = array_ops.identity(sp.indices), array_ops.identity(sp.values)
    if new_shape is None:
        tight = apply_op("Max", input=indices, reduction_indices=[0])
        shape = apply_op("Maximum", x=constant(0, dtypes.int64), y=tight + constant(1, dtypes.int64))
    else:
        shape = convert_to_tensor(new_shape, dtypes.int64)
    return SparseTensor(indices, values, shape)


def sparse_transpose(sp_input: Any, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Permute the dimensions of a SparseTensor (reversed by default)."""
    sp = as_sparse(sp_input)
    with name_scope(name, "SparseTranspose"):
        if perm is None:
            rank = sp.dense_shape.shape.num_elements()
            if rank is None:
                perm = array_ops.rank(sp) - 1 - math_ops.range(array_ops.rank(sp))
            else:
                perm = np.arange(rank - 1, -1, -1, dtype=np.int32)
        indices = array_ops.transpose(array_ops.gather(array_ops.transpose(sp.indices), perm))
        return sparse_reorder(SparseTensor(indices, sp.values, array_ops.gather(sp.dense_shape, perm)))


def sparse_expand_dims(sp_input: Any, axis: Any = None, name: str | None = None) -> SparseTensor:
    """Insert a dimension of size 1 at `axis`."""
    sp = as_sparse(sp_input)
    rank = sp.dense_shape.shape.num_elements()
    if rank is None:
        raise ValueError("sparse_expand_dims needs a sparse tensor of known rank")
    at = -1 if axis is None else int(axis)
    at = at + rank + 1 if at < 0 else at
    with name_scope(name, "ExpandDims"):
        column = array_ops.zeros_like(sp.indices[:, :1])
        indices = array_ops.concat([sp.indices[:, :at], column, sp.indices[:, at:]], 1)
        one = constant([1], dtypes.int64)
        return SparseTensor(indices, sp.values, array_ops.concat([sp.dense_shape[:at], one, sp.dense_shape[at:]], 0))
