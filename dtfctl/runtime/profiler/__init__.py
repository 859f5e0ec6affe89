"""A timeline over all tasks of a cluster: captured, written in formats that viewers read, and summed up.

As `tf.profiler` it has TensorFlow's names.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "ProfileOptionBuilder": "dtfctl.runtime.profiler.model.options",
    "Profiler": "dtfctl.runtime.profiler.model.profile",
    "advise": "dtfctl.runtime.profiler.model.advice",
    "profile": "dtfctl.runtime.profiler.model.profile",
    "GraphNodeProto": "dtfctl.protocol.tfprof_output_pb2",
    "MultiGraphNodeProto": "dtfctl.protocol.tfprof_output_pb2",
    "AdviceProto": "dtfctl.protocol.tfprof_output_pb2",
}
# Modules whose names are under their own.
_BELOW = ("experimental",)
__all__ = sorted([*_HOME, *_BELOW])


def __getattr__(name: str) -> Any:
    if name in _BELOW:
        return importlib.import_module(f"{__name__}.{name}")
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module 'tf.profiler' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
