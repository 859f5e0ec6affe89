"""`tensorflow.python.ops.map_ops`: maps from tensors to tensors that are values of a graph."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.programs.counterparts import generated

_WORDS = ("size", "insert", "lookup", "erase", "has_key", "stack_keys")
_OPS = ("empty_tensor_map", *(f"tensor_map_{word}" for word in _WORDS))


def __getattr__(name: str) -> Any:
    if name not in _OPS:
        raise AttributeError(name)
    return getattr(generated, name)
