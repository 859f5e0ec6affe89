"""The graphs that each thread has entered with `as_default`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class _Entered(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Any] = []


_entered = _Entered()


@contextlib.contextmanager
def push_graph(graph: Any) -> Iterator[None]:
    """Make this the innermost graph of the thread, in a block.

    Raises:
        AssertionError: at the end of the block another graph is the innermost.
    """
    _entered.graphs.append(graph)
    try:
        yield
    finally:
        if not _entered.graphs or _entered.graphs[-1] is not graph:
            raise AssertionError("Nesting violated for default stack of graphs")
        _entered.graphs.pop()


def enter_graph(graph: Any) -> None:
    """Make this the innermost graph of the thread until `leave_graph`."""
    _entered.graphs.append(graph)


def leave_graph(graph: Any) -> None:
    """Take a graph out of those that this thread is in, wherever it stands; nothing where it is not."""
    if graph in _entered.graphs:
        _entered.graphs.remove(graph)


def innermost_graph() -> Any:
    """Return the graph that this thread entered last; None where it is in none."""
    return _entered.graphs[-1] if _entered.graphs else None


def graph_stack() -> list[Any]:
    """Return the graphs that this thread is in, the innermost last."""
    return list(_entered.graphs)
