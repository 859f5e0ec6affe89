"""Loops whose nodes are on several devices: each device that receives inside a loop gets a driver loop.

The driver does nothing but iterate: its Merge starts an iteration, in which every receive of the device runs once; its
Switch asks the condition, which the device of the LoopCond sends to all. See Yu et al., "Dynamic control flow in
large-scale machine learning", 2018.
"""

from __future__ import annotations

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.compiler.naming import Namer
from dtfctl.runtime.compiler.order import Frame, find_frames, first_consumers, topological_order
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import Edge, Node, NodeGraph, make_node
from dtfctl.runtime.framework.structural_ops import ENTERS, EXITS, NEXTS

# The driver Merge of nodes that have inputs from other devices inside a loop; it is among their control inputs.
LoopGuards = dict[Node, Node]

_FLOAT = graph_pb2.AttrValue(type=dtypes.float32.as_datatype_enum)  # type: ignore[arg-type]


def add_control_loops(graph: NodeGraph, namer: Namer) -> LoopGuards:
    """Add driver loops where they are needed; the graph is changed.

    Raises:
        InvalidArgumentError: the loops are malformed, or one that crosses devices has no LoopCond.
    """
    ops = {node.op for node in graph}
    has_loops = bool(ops & (ENTERS | EXITS | NEXTS))
    if not has_loops and "Switch" not in ops:
        return {}
    _colocate_control_flow(graph)
    if not has_loops:
        return {}
    frames = find_frames(graph)
    drivers = _Drivers(graph, namer)
    guards: LoopGuards = {}
    for node in list(graph):
        frame = _frame_before(node, frames)
        if frame.is_root:
            continue
        sources = (*(e.node for e in node.inputs), *node.control_inputs)
        if any(s.device != node.device and _frame_after(s, frames) is frame for s in sources):
            guards[node] = drivers.merge(frame, node)
    for node, guard in guards.items():
        node.control_inputs.append(guard)
    # Drivers on other devices than their conditions receive those, which is guarded like any receive.
    guards.update(drivers.guards)
    return guards


def _frame_before(node: Node, frames: dict[Node, Frame]) -> Frame:
    """Return the frame a node's inputs are in."""
    frame = frames[node]
    return frame.parent or frame if node.op in ENTERS else frame


def _frame_after(node: Node, frames: dict[Node, Frame]) -> Frame:
    """Return the frame a node's outputs are in."""
    frame = frames[node]
    return frame.parent or frame if node.op in EXITS else frame


class _Drivers:
    def __init__(self, graph: NodeGraph, namer: Namer) -> None:
        self._graph = graph
        self._namer = namer
        self._merges: dict[tuple[Frame, str], Node] = {}
        self.guards: LoopGuards = {}

    def merge(self, frame: Frame, node: Node) -> Node:
        """Make the Merge of the driver of `frame` on the device of `node`, which is what it is named after."""
        device = node.device
        known = self._merges.get((frame, device))
        if known is not None:
            return known
        # Outer loops are driven too: the inner driver is entered once an iteration of the outer one.
        chain: list[Frame] = []
        at: Frame | None = frame
        while at is not None and not at.is_root and (at, device) not in self._merges:
            chain.append(at)
            at = at.parent
        outer: Node | None = None
        if at is not None and not at.is_root:
            outer = self._merges[at, device]
        for one in reversed(chain):
            outer = self._merges[one, device] = self._add(one, node, outer)
        assert outer is not None
        return outer

    def _add(self, frame: Frame, node: Node, outer: Node | None) -> Node:
        device, graph = node.device, self._graph
        if frame.condition is None or frame.enter is None:
            raise InvalidArgumentError(f"A cross-device loop must have a pivot predicate: {frame.name}")
        names = [self._namer(node.name, "_cloop") for _ in range(4)]
        if outer is None:
            value = graph_pb2.AttrValue()
            value.tensor.dtype = dtypes.float32.as_datatype_enum  # type: ignore[assignment]
            value.tensor.tensor_shape.dim.add(size=0)
            attrs = {"value": value, "dtype": _FLOAT}
            outer = graph.add(make_node(self._namer(node.name), "Const", attrs, device=device))
        enter_attrs = {
            "T": _FLOAT,
            "frame_name": graph_pb2.AttrValue(s=frame.name.encode()),
            "parallel_iterations": frame.enter.raw_attrs["parallel_iterations"],
        }
        enter = graph.add(make_node(names[0], "Enter", enter_attrs, [Edge(outer, 0)], device=device))
        count = graph_pb2.AttrValue(i=2)
        merge = graph.add(make_node(names[1], "Merge", {"T": _FLOAT, "N": count}, [Edge(enter, 0)], device=device))
        inputs = [Edge(merge, 0), Edge(frame.condition, 0)]
        switch = graph.add(make_node(names[2], "Switch", {"T": _FLOAT}, inputs, device=device))
        back = graph.add(make_node(names[3], "NextIteration", {"T": _FLOAT}, [Edge(switch, 1)], device=device))
        merge.inputs.append(Edge(back, 0))
        if frame.condition.device != device:
            switch.control_inputs.append(merge)
            self.guards[switch] = merge
        return merge


def _colocate_control_flow(graph: NodeGraph) -> None:
    """Move Enter and NextIteration to their first consumer, then Switch and Exit to their input.

    A conditional read of a remote variable then ships only what the branch needs, and loops span fewer devices.
    """
    order = topological_order(graph)
    consumers = first_consumers(graph)
    for node in reversed(order):
        if (node.op == "Enter" or node.op in NEXTS) and node in consumers:
            node.device = consumers[node].device
    for node in order:
        if (node.op == "Switch" or node.op in EXITS) and node.inputs:
            node.device = node.inputs[0].node.device
