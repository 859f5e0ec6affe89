"""Sparse tensors as strings or variants, and back."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import Dimension
from dtfctl.runtime.ops.sparse_ops.common import as_sparse


def serialize_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """Serialize a SparseTensor as a vector of three serialized tensors."""
    sp = as_sparse(sp_input)
    return apply_op(
        "SerializeSparse",
        name,
        sparse_indices=sp.indices,
        sparse_values=sp.values,
        sparse_shape=sp.dense_shape,
        out_type=out_type,
    )


def serialize_many_sparse(sp_input: Any, name: str | None = None, out_type: Any = dtypes.string) -> Tensor:
    """Serialize each row of a SparseTensor as three serialized tensors."""
    sp = as_sparse(sp_input)
    return apply_op(
        "SerializeManySparse",
        name,
        sparse_indices=sp.indices,
        sparse_values=sp.values,
        sparse_shape=sp.dense_shape,
        out_type=out_type,
    )


def _deserialized(parts: list[Tensor], rank: int | Dimension | None) -> SparseTensor:
    indices, values, shape = parts
    size = rank.value if isinstance(rank, Dimension) else rank
    indices.set_shape([None, size])
    shape.set_shape([size])
    return SparseTensor(indices, values, shape)


def deserialize_sparse(serialized_sparse: Any, dtype: Any, rank: Any = None, name: str | None = None) -> SparseTensor:
    """Join a SparseTensor from its three serialized tensors."""
    return _deserialized(
        apply_op_outputs("DeserializeSparse", name, serialized_sparse=serialized_sparse, dtype=dtype), rank
    )


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: Any = None, name: str | None = None
) -> SparseTensor:
    """Join a SparseTensor from rows serialized one by one."""
    parts = apply_op_outputs("DeserializeManySparse", name, serialized_sparse=serialized_sparse, dtype=dtype)
    return _deserialized(parts, rank)
