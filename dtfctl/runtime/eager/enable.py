"""Turning eager execution on, and asking for it."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.eager.graph import EagerGraph
from dtfctl.runtime.framework import context


def enable_eager_execution(config: Any = None, device_policy: Any = None, execution_mode: Any = None) -> None:
    """Run ops when they are called, from now on and until the program ends, except inside graphs and functions.

    Args:
        config, device_policy, execution_mode: accepted; there is one device and ops run in the order of the program.

    Raises:
        ValueError: the program has built graph ops already, or is inside a graph.
    """
    if context.global_graph_type() is EagerGraph:
        return
    if context.graph_stack() or context.global_graph_is_used():
        raise ValueError("tf.enable_eager_execution must be called at program startup.")
    context.set_global_graph_type(EagerGraph)


def executing_eagerly() -> bool:
    """Tell whether an op called here runs at once; False in graphs and in functions being traced."""
    return context.global_graph_type() is EagerGraph and context.get_default_graph().executes
