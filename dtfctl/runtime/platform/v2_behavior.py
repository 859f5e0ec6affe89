"""Switches of `tensorflow.compat.v1` that turn TensorFlow 2's behaviour off, which here was never on.

Scripts written for TensorFlow 2's `compat.v1` call one of them first; they need no change for it.
"""

from __future__ import annotations

from dtfctl.runtime.framework import context


def disable_v2_behavior() -> None:
    """Do nothing: graphs, sessions and reference variables are what this module does by default."""


def disable_eager_execution() -> None:
    """Ops are added to a graph, which is the default, also after `enable_eager_execution`."""
    if context.global_graph_type() is not None:
        context.set_global_graph_type(None)


def disable_v2_tensorshape() -> None:
    """Do nothing: items of a TensorShape are Dimensions."""


def disable_control_flow_v2() -> None:
    """Do nothing: loops and conditions are TensorFlow 1's."""


def control_flow_v2_enabled() -> bool:
    return False
