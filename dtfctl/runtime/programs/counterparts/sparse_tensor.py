"""`tensorflow.python.framework.sparse_tensor`: what is not a public name of it."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.client.fetches import SparseTensorValue
from dtfctl.runtime.framework.convert import SparseTensor

__all__ = ["SparseTensor", "SparseTensorValue", "is_sparse"]


def is_sparse(x: Any) -> bool:
    """Tell whether a value is a sparse tensor, in a graph or fetched."""
    return isinstance(x, (SparseTensor, SparseTensorValue))
