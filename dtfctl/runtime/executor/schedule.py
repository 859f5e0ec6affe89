"""In which order a partition's nodes run when they run one after the other."""

from __future__ import annotations

import heapq

from dtfctl.runtime.executor.keys import RECVS, is_client_terminated
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import Node, NodeGraph


def sequential_order(graph: NodeGraph) -> list[Node]:
    """A topological order by rank in which receives from other devices come as late as they can.

    Everything that can run before a receive, sends above all, does; pending receives are taken in rank order. With
    ranks from one topological order of all partitions no two partitions can wait for each other: of all receives
    being waited for, the one of least rank has its send's ancestors all of lower rank, so nothing holds that send back.

    Raises:
        InvalidArgumentError: the graph has a cycle.
    """
    position = {node: i for i, node in enumerate(graph)}
    waiting = {node: len(node.inputs) + len(node.control_inputs) for node in graph}
    consumers = graph.consumers()
    ready: list[tuple[int, int, Node]] = []
    receives: list[tuple[int, int, Node]] = []

    def add(node: Node) -> None:
        waits = node.op in RECVS and not is_client_terminated(node)
        heapq.heappush(receives if waits else ready, (node.rank, position[node], node))

    for node, count in waiting.items():
        if not count:
            add(node)
    order: list[Node] = []
    while ready or receives:
        node = heapq.heappop(ready if ready else receives)[2]
        order.append(node)
        for consumer, _ in consumers[node]:
            waiting[consumer] -= 1
            if not waiting[consumer]:
                add(consumer)
    if len(order) != len(waiting):
        stuck = next(node for node, count in waiting.items() if count)
        raise InvalidArgumentError(f"Graph contains a cycle through node '{stuck.name}'", stuck.name)
    return order
