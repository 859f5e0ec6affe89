"""`tensorflow.python.framework.config`: settings of the runtime that programs change before their first step."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime import api as tf


def tensor_float_32_execution_enabled() -> bool:
    """Return False: products on GPUs are of the precision of their inputs."""
    return False


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Do nothing: products on GPUs keep the precision of their inputs, which is more than is allowed here."""


def enable_op_determinism() -> None:
    """Do nothing: sums have one order."""


def disable_op_determinism() -> None:
    """Do nothing: sums keep their one order."""


def __getattr__(name: str) -> Any:
    space = getattr(tf, "config", None)
    for found in (space, getattr(space, "experimental", None)):
        if hasattr(found, name):
            return getattr(found, name)
    raise AttributeError(f"tf.config has no {name!r}")
