"""Topological order: cycles, frames of loops, and ranks."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph
from dtfctl.runtime.framework.structural_ops import AHEAD_ATTR, ENTERS, EXITS, MERGES, NEXTS


@dataclass(eq=False)
class Frame:
    """A loop of the graph. The graph itself is the frame without a parent.

    Attributes:
        enter: one of the nodes that lead into it; None for the root.
        condition: its LoopCond, if it has one.
    """

    name: str
    parent: Frame | None
    enter: Node | None = None
    condition: Node | None = None

    @property
    def is_root(self) -> bool:
        return self.parent is None


def is_back_edge(edge: Edge, consumer: Node) -> bool:
    """Tell whether an edge is of the one kind that may close a cycle."""
    return edge.node.op in NEXTS and consumer.op in MERGES


def topological_order(graph: NodeGraph) -> list[Node]:
    """Sort all nodes, each after its inputs, in the graph's own order where that is free.

    Raises:
        InvalidArgumentError: there is a cycle that does not go from a NextIteration to a Merge.
    """
    waiting: dict[Node, int] = {}
    consumers: dict[Node, list[Node]] = {}
    ready: deque[Node] = deque()
    for node in graph:
        sources = _sources(node)
        for source in sources:
            users = consumers.get(source)
            if users is None:
                consumers[source] = [node]
            else:
                users.append(node)
        waiting[node] = len(sources)
        if not sources:
            ready.append(node)
    order: list[Node] = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for consumer in consumers.get(node, ()):
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    if len(order) != len(waiting):
        stuck = [node.name for node, count in waiting.items() if count]
        raise InvalidArgumentError(f"{len(stuck)} nodes in a cycle, or after one; among them '{stuck[0]}'", stuck[0])
    return order


def inputs_first(graph: NodeGraph) -> list[Node]:
    """Sort all nodes, each after its inputs: in the graph's own order if it is one,
    which is found out in half the time.

    Raises:
        InvalidArgumentError: there is a cycle.
    """
    seen: set[Node] = set()
    for node in graph:
        for source, _ in node.inputs:
            if source not in seen:
                return topological_order(graph)
        for source in node.control_inputs:
            if source not in seen:
                return topological_order(graph)
        seen.add(node)
    return list(graph)


def assign_ranks(graph: NodeGraph) -> list[Node]:
    """Set every node's rank to its place in one topological order, which is returned.

    The order goes in stages: stage n holds what needs n transfers between devices before it can run. Inside a stage
    nodes others wait for come first, so that sends start early, and receives, which start the next stage, come late.
    What takes a transfer that only the next step needs comes behind all stages.

    Raises:
        InvalidArgumentError: there is a cycle.
    """
    order = inputs_first(graph)
    if len({node.device for node in order}) > 1:
        order = _in_stages(order)
    for rank, node in enumerate(order):
        node.rank = rank
    return order


def _in_stages(order: list[Node]) -> list[Node]:
    stage: dict[Node, int] = {}
    # Nodes others wait for, and those of them whose inputs were not looked at yet.
    awaited: set[Node] = set()
    for node in order:
        at, device = 0, node.device
        for source in _sources(node):
            before = stage[source]
            if source.device != device:
                before += 1
                awaited.add(source)
            if before > at:
                at = before
        if AHEAD_ATTR in node.raw_attrs:
            at += len(order)
        stage[node] = at
    work = list(awaited)
    while work:
        node = work.pop()
        at = stage[node]
        for source in _sources(node):
            if stage[source] == at and source not in awaited:
                awaited.add(source)
                work.append(source)
    place = {node: 2 * at + (node not in awaited) for node, at in stage.items()}
    return sorted(order, key=place.__getitem__)


def _sources(node: Node) -> list[Node]:
    """Return what must run before a node."""
    if node.op in MERGES:
        data = [e.node for e in node.inputs if not is_back_edge(e, node)]
    else:
        data = [edge[0] for edge in node.inputs]
    return data + node.control_inputs if node.control_inputs else data


def find_frames(graph: NodeGraph) -> dict[Node, Frame]:
    """Find the frame each node runs in (an Enter's is the loop it leads into, an Exit's the loop it leaves).

    Raises:
        InvalidArgumentError: a node has inputs from different frames, or leaves a loop it is not in.
    """
    root = Frame("", None)
    frames: dict[Node, Frame] = {}
    known: dict[tuple[Frame, str], Frame] = {}
    for node in topological_order(graph):
        frame: Frame | None = None
        giver: Node | None = None
        for source in (*(e.node for e in node.inputs if not is_back_edge(e, node)), *node.control_inputs):
            outer = frames[source]
            if source.op in EXITS:
                assert outer.parent is not None
                outer = outer.parent
            if frame is None:
                frame, giver = outer, source
            elif outer is not frame:
                assert giver is not None
                raise InvalidArgumentError(
                    f"The node '{node.name}' has inputs from different frames. The input '{source.name}' is in frame "
                    f"'{outer.name}'. The input '{giver.name}' is in frame '{frame.name}'.",
                    node.name,
                )
        frame = frame or root
        if node.op in ENTERS:
            name = node.text_attr("frame_name")
            child = known.get((frame, name))
            if child is None:
                child = known[frame, name] = Frame(name, frame, node)
            frame = child
        elif node.op in EXITS and frame.is_root:
            raise InvalidArgumentError(f"The node '{node.name}' exits a loop that was not entered.", node.name)
        elif node.op == "LoopCond":
            if frame.is_root:
                raise InvalidArgumentError(f"The node '{node.name}' is the condition of no loop.", node.name)
            frame.condition = node
        frames[node] = frame
    return frames


def first_consumers(graph: NodeGraph) -> dict[Node, Node]:
    """Return for each node with data consumers the first of them."""
    first: dict[Node, Node] = {}
    for node in graph:
        for edge in node.inputs:
            first.setdefault(edge.node, node)
    return first
