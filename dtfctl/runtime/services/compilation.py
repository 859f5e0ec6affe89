"""A session's graph and how the compiler is asked to turn a signature into partitions, one a task."""

from __future__ import annotations

from collections.abc import Sequence

from dtfctl.protocol import config_pb2, device_pb2, graph_pb2
from dtfctl.runtime.compiler.order import assign_ranks
from dtfctl.runtime.compiler.prune import prune
from dtfctl.runtime.framework.node_graph import NodeGraph


class SessionGraph:
    """All nodes a client has sent.

    Args:
        devices: by task, the master's own first.
        task: the master's own.
    """

    def __init__(
        self, devices: Sequence[Sequence[device_pb2.DeviceAttributes]], task: str, config: config_pb2.ConfigProto
    ) -> None:
        self.graph = NodeGraph()
        self._devices = [d for of_task in devices for d in of_task]
        self._task = task
        self._config = config

    def extend(self, graph_def: graph_pb2.GraphDef) -> None:
        """Add nodes.

        Raises:
            OpError: the GraphDef is malformed; nothing is added.
        """
        self.graph.extend(graph_def)

    def compile(self, feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]) -> dict[str, NodeGraph]:
        """Partitions by task.

        Raises:
            OpError: the signature is at fault, or nodes cannot be placed.
        """
        client = self._devices[0]
        out = prune(self.graph, feeds, fetches, targets, client.name, client.incarnation)
        for node in out:
            node.device = client.name
        assign_ranks(out)
        return {self._task: out}
