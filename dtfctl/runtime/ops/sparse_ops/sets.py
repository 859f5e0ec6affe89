"""Rows as sets: unions, intersections, differences and sizes."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.convert import SparseTensor
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.ops.sparse_ops.common import as_sparse


def _set_operation(operation: str, a: Any, b: Any, validate: bool) -> SparseTensor:
    a_sparse, b_sparse = hasattr(a, "dense_shape"), hasattr(b, "dense_shape")
    common: dict[str, Any] = {"set_operation": operation, "validate_indices": validate}
    if a_sparse and b_sparse:
        x, y = as_sparse(a), as_sparse(b)
        out = apply_op_outputs(
            "SparseToSparseSetOperation",
            set1_indices=x.indices,
            set1_values=x.values,
            set1_shape=x.dense_shape,
            set2_indices=y.indices,
            set2_values=y.values,
            set2_shape=y.dense_shape,
            **common,
        )
    elif b_sparse:
        y = as_sparse(b)
        out = apply_op_outputs(
            "DenseToSparseSetOperation",
            set1=a,
            set2_indices=y.indices,
            set2_values=y.values,
            set2_shape=y.dense_shape,
            **common,
        )
    elif a_sparse:
        flipped = {"a-b": "b-a", "b-a": "a-b"}.get(operation, operation)
        return _set_operation(flipped, b, a, validate)
    else:
        out = apply_op_outputs("DenseToDenseSetOperation", set1=a, set2=b, **common)
    return SparseTensor(*out)


def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Find the elements of each row of a that are in that of b."""
    return _set_operation("intersection", a, b, validate_indices)


def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Find the elements in a row of a or of b."""
    return _set_operation("union", a, b, validate_indices)


def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """Find the elements of each row of a that are not in that of b, or the other way round."""
    return _set_operation("a-b" if aminusb else "b-a", a, b, validate_indices)


def set_size(a: Any, validate_indices: bool = True) -> Tensor:
    """Count the distinct elements in each row."""
    sp = as_sparse(a)
    return apply_op(
        "SetSize",
        set_indices=sp.indices,
        set_values=sp.values,
        set_shape=sp.dense_shape,
        validate_indices=validate_indices,
    )
