"""The default graph of each thread."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dtfctl.runtime.framework.graph import Graph


class _Stack(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph] = []


_stack = _Stack()
_global: list[Graph] = []
# What the global default graph is an instance of: runtime.eager sets it, None means Graph.
_global_type: Callable[[], Graph] | None = None
_lock = threading.Lock()


def get_default_graph() -> Graph:
    """Get the innermost graph entered with `as_default` in this thread, else the global one."""
    if _stack.graphs:
        return _stack.graphs[-1]
    with _lock:
        if not _global:
            from dtfctl.runtime.framework.graph import Graph

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
    if _stack.graphs:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs.")
    with _lock:
        _global.clear()


@contextlib.contextmanager
def push_graph(graph: Graph) -> Iterator[Graph]:
    _stack.graphs.append(graph)
    try:
        yield graph
    finally:
        if not _stack.graphs or _stack.graphs[-1] is not graph:
            raise AssertionError("Nesting violated for default stack of graphs")
        _stack.graphs.pop()


def graph_stack() -> list[Any]:
    return list(_stack.graphs)
