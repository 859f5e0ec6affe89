"""Names for nodes the compiler adds."""

from __future__ import annotations

from dtfctl.runtime.framework.node_graph import NodeGraph


class Namer:
    """Gives "NAME_S0", "NAME_S1", ...: never a name the graph has."""

    def __init__(self, graph: NodeGraph, suffix: str) -> None:
        self._taken = graph.nodes
        self._suffix = suffix
        self._next = 0

    def __call__(self, base: str, prefix: str = "") -> str:
        while True:
            name = f"{prefix}{base}_{self._suffix}{self._next}"
            self._next += 1
            if name not in self._taken:
                return name
