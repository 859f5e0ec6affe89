"""`tensorflow.python.ops.sparse_ops`: what is not a name of `tf.sparse`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime import api as tf
from dtfctl.runtime.api import sparse
from dtfctl.runtime.ops.sparse_ops.common import as_sparse
from dtfctl.runtime.ops.sparse_ops.serialization import deserialize_sparse
from dtfctl.runtime.programs.counterparts import generated

__all__ = ["deserialize_sparse", "map_values"]


def _added(op: str, sp_input: Any, container: str | None, shared_name: str | None, name: str | None) -> Any:
    sp = as_sparse(sp_input)
    return tf.apply_op(
        op,
        name,
        sparse_indices=sp.indices,
        sparse_values=sp.values,
        sparse_shape=sp.dense_shape,
        container=container or "",
        shared_name=shared_name or "",
    )


def _add_sparse_to_tensors_map(
    sp_input: Any, container: str | None = None, shared_name: str | None = None, name: str | None = None
) -> Any:
    """Put a sparse tensor into a map of the task; return its handle, int64."""
    return _added("AddSparseToTensorsMap", sp_input, container, shared_name, name)


def _add_many_sparse_to_tensors_map(
    sp_input: Any, container: str | None = None, shared_name: str | None = None, name: str | None = None
) -> Any:
    """Put each row of a sparse tensor into a map of the task; return their handles."""
    return _added("AddManySparseToTensorsMap", sp_input, container, shared_name, name)


def _take_many_sparse_from_tensors_map(
    sparse_map_op: Any, sparse_handles: Any, rank: int | None = None, name: str | None = None
) -> Any:
    """Take sparse tensors out of the map that an op put them into, and join them as rows.

    Raises:
        TypeError: it is no op of a map.
    """
    if not isinstance(sparse_map_op, tf.Operation):
        raise TypeError("sparse_map_op be an Operation")
    if sparse_map_op.type not in ("AddSparseToTensorsMap", "AddManySparseToTensorsMap"):
        raise TypeError(
            "sparse_map_op must be one of AddSparseToTensorsMap or AddSparseToTensorsMap. "
            f"Instead, found `{sparse_map_op.type}`."
        )
    with tf.colocate_with(sparse_map_op):
        indices, values, shape = tf.raw_ops.TakeManySparseFromTensorsMap(
            sparse_handles=sparse_handles,
            dtype=sparse_map_op.get_attr("T"),
            container=sparse_map_op.get_attr("container").decode(),
            shared_name=sparse_map_op.get_attr("shared_name").decode() or sparse_map_op.name,
            name=name,
        )
    indices.set_shape([None, rank])
    shape.set_shape([rank])
    return tf.SparseTensor(indices, values, shape)


def map_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a function to the values of sparse tensors of one sparsity.

    Raises:
        ValueError: none of the arguments is sparse.
    """
    found: list[Any] = []

    def values(x: Any) -> Any:
        if isinstance(x, (list, tuple)):
            return type(x)(values(v) for v in x)
        if not isinstance(x, tf.SparseTensor):
            return x
        found.append(x)
        return x.values

    plain, named = [values(a) for a in args], {key: values(a) for key, a in kwargs.items()}
    if not found:
        raise ValueError("No SparseTensor in argument list of map_values")
    first = found[0]
    checks = [
        check
        for other in found[1:]
        for check in (
            tf.assert_equal(other.dense_shape, first.dense_shape, message="Mismatched shapes!"),
            tf.assert_equal(other.indices, first.indices, message="Mismatched indices!"),
        )
    ]
    with tf.control_dependencies(checks):
        return tf.SparseTensor(first.indices, op(*plain, **named), first.dense_shape)


def __getattr__(name: str) -> Any:
    if hasattr(sparse, name):
        return getattr(sparse, name)
    # `sparse_slice_grad` and others that are an op and no public name.
    if name.startswith("sparse_") and name.endswith("_grad"):
        return getattr(generated, name)
    raise AttributeError(name)
