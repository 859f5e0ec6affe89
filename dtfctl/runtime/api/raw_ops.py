"""`tf.raw_ops`: every op by its type, with the arguments of its signature."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import op_builder
from dtfctl.runtime.framework.op_signature import find_signature, op_names


def __getattr__(name: str) -> Any:
    if name.startswith("__") or find_signature(name) is None:
        raise AttributeError(f"module 'tf.raw_ops' has no attribute {name!r}")

    def raw_op(**arguments: Any) -> Any:
        return op_builder.apply_op_nested(name, **arguments)

    raw_op.__name__ = name
    return raw_op


def __dir__() -> list[str]:
    return op_names()
