"""What passes for a sparse tensor."""

from __future__ import annotations

from typing import Any, NamedTuple

from dtfctl.runtime.framework.convert import SparseTensor


class SparseTensorValue(NamedTuple):
    """A sparse tensor's arrays: what fetching a SparseTensor gives and what feeding one takes."""

    indices: Any
    values: Any
    dense_shape: Any


def as_sparse(value: Any) -> SparseTensor:
    if isinstance(value, SparseTensor):
        return value
    if hasattr(value, "indices") and hasattr(value, "dense_shape"):
        return SparseTensor.from_value(value)
    raise TypeError(f"Input must be a SparseTensor, got {value!r}")
