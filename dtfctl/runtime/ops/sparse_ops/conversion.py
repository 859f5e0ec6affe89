"""Sparse tensors from dense ones, and the way back."""

from __future__ import annotations

from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import IndexedSlices, SparseTensor, constant, convert_to_tensor
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops import array_ops, math_ops
from dtfctl.runtime.ops.sparse_ops.arranging import sparse_reorder
from dtfctl.runtime.ops.sparse_ops.common import as_sparse


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """Make a dense tensor with values at coordinates and a default elsewhere."""
    values = convert_to_tensor(sparse_values, name="sparse_values")
    indices = convert_to_tensor(sparse_indices, name="sparse_indices")
    return apply_op(
        "SparseToDense",
        name,
        sparse_indices=indices,
        output_shape=convert_to_tensor(output_shape, indices.dtype.base_dtype),
        sparse_values=values,
        default_value=convert_to_tensor(default_value, values.dtype.base_dtype),
        validate_indices=validate_indices,
    )


def sparse_tensor_to_dense(
    sp_input: Any, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """Convert a SparseTensor to a dense tensor."""
    sp = as_sparse(sp_input)
    if default_value is None:
        default_value = {dtypes.string: "", dtypes.bool_: False}.get(sp.dtype.base_dtype, 0)
    dense = sparse_to_dense(sp.indices, sp.dense_shape, sp.values, default_value, validate_indices, name)
    dense.set_shape(sp.shape)
    return dense


def sparse_to_indicator(sp_input: Any, vocab_size: int, name: str | None = None) -> Tensor:
    """Mark which ids of 0..vocab_size-1 each row holds."""
    sp = as_sparse(sp_input)
    with name_scope(name, "SparseToIndicator") as scope:
        ones = array_ops.ones_like(sp.values, dtype=dtypes.bool_)
        merged = sparse_merge(sp, SparseTensor(sp.indices, ones, sp.dense_shape), vocab_size)
        return sparse_tensor_to_dense(merged, default_value=False, validate_indices=False, name=scope)


def sparse_merge(
    sp_ids: Any, sp_values: Any, vocab_size: Any, name: str | None = None, already_sorted: bool = False
) -> SparseTensor:
    """Place values by their ids: the last dimension becomes the vocabulary."""
    ids = [as_sparse(s) for s in (sp_ids if isinstance(sp_ids, list) else [sp_ids])]
    sizes = list(vocab_size) if isinstance(vocab_size, (list, tuple)) else [vocab_size]
    values = as_sparse(sp_values)
    with name_scope(name, "SparseMerge"):
        columns = [array_ops.expand_dims(math_ops.cast(s.values, dtypes.int64), 1) for s in ids]
        indices = array_ops.concat([ids[0].indices[:, :-1], *columns], 1)
        last = [array_ops.reshape(math_ops.cast(convert_to_tensor(v), dtypes.int64), [1]) for v in sizes]
        merged = SparseTensor(indices, values.values, array_ops.concat([ids[0].dense_shape[:-1], *last], 0))
        return merged if already_sorted else sparse_reorder(merged)


def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """Make a SparseTensor of the entries of a dense tensor that are not zero (not empty)."""
    with name_scope(name, "dense_to_sparse"):
        x = convert_to_tensor(tensor)
        zero = constant("" if x.dtype.base_dtype is dtypes.string else x.dtype.as_numpy_dtype(0), x.dtype.base_dtype)
        indices = apply_op("Where", input=math_ops.not_equal(x, zero))
        return SparseTensor(indices, array_ops.gather_nd(x, indices), array_ops.shape(x, out_type=dtypes.int64))


def sparse_eye(
    num_rows: int, num_columns: int | None = None, dtype: Any = dtypes.float32, name: str | None = None
) -> SparseTensor:
    """Make a sparse identity matrix."""
    with name_scope(name, "eye"):
        columns = num_rows if num_columns is None else num_columns
        places = np.arange(min(num_rows, columns), dtype=np.int64)
        values = array_ops.ones([len(places)], dtype)
        return SparseTensor(np.stack([places, places], axis=1), values, np.array([num_rows, columns], np.int64))


def sparse_mask(a: Any, mask_indices: Any, name: str | None = None) -> Any:
    """Drop the rows named from an IndexedSlices."""
    with name_scope(name, "sparse_mask"):
        kept, where = array_ops.setdiff1d(a.indices, mask_indices)
        return IndexedSlices(array_ops.gather(a.values, where), kept, a.dense_shape)
