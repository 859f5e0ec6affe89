"""`tensorflow.python.ops.variable_v1`: variables under the names of that module."""

from __future__ import annotations

from dtfctl.runtime.api import Variable as VariableV1, is_variable_initialized

__all__ = ["VariableV1", "is_variable_initialized"]
