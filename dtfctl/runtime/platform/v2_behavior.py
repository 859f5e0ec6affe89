"""Switches of `tensorflow.compat.v1` that turn TensorFlow 2's behaviour off, which here was never on.

Scripts written for TensorFlow 2's `compat.v1` call one of them first; they need no change for it.
"""

from __future__ import annotations


def disable_v2_behavior() -> None:
    """Nothing to do: graphs, sessions and reference variables are what this module does by default."""


def disable_eager_execution() -> None:
    """Nothing to do: ops are added to a graph."""


def disable_v2_tensorshape() -> None:
    """Nothing to do: items of a TensorShape are Dimensions."""


def disable_control_flow_v2() -> None:
    """Nothing to do: loops and conditions are TensorFlow 1's."""


def control_flow_v2_enabled() -> bool:
    return False
