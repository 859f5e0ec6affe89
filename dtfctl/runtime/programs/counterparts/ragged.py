"""`tensorflow.python.ops.ragged`: the names of all its modules."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.api.ragged import (
    cross,
)
from dtfctl.runtime.ops.ragged_ops.gathering import batch_gather
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import (
    RaggedTensor,
    is_ragged,
)

ragged_batch_gather = batch_gather
ragged_cross = cross


def from_tensor(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a ragged tensor of a dense one; what is ragged stays as it is."""
    return tensor if is_ragged(tensor) else RaggedTensor.from_tensor(tensor, *args, **kwargs)


def from_sparse(source: Any, name: str | None = None) -> Any:
    return RaggedTensor.from_sparse(source, name)


def to_tensor(source: Any, default_value: Any = None, name: str | None = None) -> Any:
    """Fill rows up to a dense tensor; what is dense stays as it is."""
    return source.to_tensor(default_value, name) if is_ragged(source) else source


def to_sparse(source: Any, name: str | None = None) -> Any:
    return source.to_sparse(name)


__all__ = [name for name in dir() if not name.startswith("_")]
