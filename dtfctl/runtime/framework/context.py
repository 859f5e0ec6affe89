"""The default graph of each thread."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.graph_stack import graph_stack, innermost_graph

__all__ = [
    "get_default_graph",
    "global_graph_is_used",
    "global_graph_type",
    "graph_stack",
    "reset_default_graph",
    "set_global_graph_type",
]

_global: list[Graph] = []
# What the global default graph is an instance of: runtime.eager sets it, None means Graph.
_global_type: Callable[[], Graph] | None = None
_lock = threading.Lock()


def get_default_graph() -> Graph:
    """Get the innermost graph entered with `as_default` in this thread, else the global one."""
    entered: Graph | None = innermost_graph()
    if entered is not None:
        return entered
    with _lock:
        if not _global:
            _global.append((_global_type or Graph)())
        return _global[0]


def global_graph_type() -> Callable[[], Graph] | None:
    return _global_type


def set_global_graph_type(make: Callable[[], Graph] | None) -> None:
    """Let the global default graph be made by this, and replace the one there is."""
    global _global_type
    with _lock:
        _global_type = make
        _global.clear()


def global_graph_is_used() -> bool:
    """Tell whether operations were added to the global default graph."""
    with _lock:
        return bool(_global) and _global[0].last_id > 0


def reset_default_graph() -> None:
    """Replace the global default graph with an empty one.

    Raises:
        AssertionError: called inside a `with graph.as_default()` block.
    """
    if innermost_graph() is not None:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    with _lock:
        _global.clear()
