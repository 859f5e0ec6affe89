"""`tensorflow.python.framework.config`: settings of the runtime that programs change before their first step."""

from __future__ import annotations

import os
from typing import Any

from dtfctl.runtime import api as tf

_ONE_ORDER = ("DTF_NATIVE", "DTF_ADAPT_THREADS")
_before: dict[str, str | None] = {}


def tensor_float_32_execution_enabled() -> bool:
    """Return False: products on GPUs are of the precision of their inputs."""
    return False


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Do nothing: products on GPUs keep the precision of their inputs, which is more than is allowed here."""


def enable_op_determinism() -> None:
    """Have sums added up in one order from now on, in plans that this process makes and those it starts.

    Else the first steps, before regions are compiled, and products by more or fewer threads may differ in the last
    places from others. Tasks of a cluster have it from the spec (`env: {DTF_NATIVE: "0", DTF_ADAPT_THREADS: "0"}`).
    """
    for name in _ONE_ORDER:
        _before.setdefault(name, os.environ.get(name))
        os.environ[name] = "0"


def is_op_determinism_enabled() -> bool:
    """Tell whether `enable_op_determinism` holds."""
    return bool(_before)


def disable_op_determinism() -> None:
    """Undo `enable_op_determinism`."""
    for name, value in _before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _before.clear()


def __getattr__(name: str) -> Any:
    space = getattr(tf, "config", None)
    for found in (space, getattr(space, "experimental", None)):
        if hasattr(found, name):
            return getattr(found, name)
    raise AttributeError(f"tf.config has no {name!r}")
