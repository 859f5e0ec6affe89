"""What the frame machine knows of a graph before it runs: static frames, and a table of nodes with their consumers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from dtfctl.runtime.executor.binding import Environment, has_list_output, reads_of, ref_positions, single
from dtfctl.runtime.executor.keys import is_client_terminated, key_prefix
from dtfctl.runtime.executor.node_errors import located
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import CONTROL, Node, NodeGraph
from dtfctl.runtime.framework.structural_ops import ENTERS, EXITS, MERGES, NEXTS, RECVS, SENDS, SWITCHES
from dtfctl.runtime.kernels.registry import op_promises


class Kind(IntEnum):
    """How a node runs."""

    KERNEL = 0
    STEP_KERNEL = 1
    BLOCKING = 2
    PASS = 3
    CONST = 4
    NOTHING = 5
    SWITCH = 6
    SWITCH_N = 7
    MERGE = 8
    ENTER = 9
    EXIT = 10
    NEXT = 11
    SEND = 12
    RECV = 13
    ARG = 14
    RETVAL = 15
    TRIGGER = 16
    HEAVY = 17


@dataclass(eq=False)
class StaticFrame:
    """A loop as it stands in the graph; `parent` is None for the graph itself.

    Attributes:
        pending: for each node what it waits for at the start of an iteration.
        values: how many input values an iteration holds.
        enters: how many Enter nodes lead into it.
    """

    name: str
    parent: StaticFrame | None
    parallel: int = 10
    pending: list[int] = field(default_factory=list)
    values: int = 0
    enters: int = 0
    exits: list[NodeEntry] = field(default_factory=list)

    def __str__(self) -> str:
        return self.name


class NodeEntry:
    """A node as the frame machine runs it.

    Attributes:
        index: its place in `pending` of its frame's iterations.
        first, last: its inputs among the iteration's values. A Merge has two: the value and which input it was.
        reads: inputs to read from variables; `checked`: variables that must be initialized.
        consumers: for each output slot (consumer, where its input goes, which input that is).
        controls: consumers of its control output.
        child: the frame an Enter leads to.
        merge: it fires at its first live input.
    """

    __slots__ = (
        "call",
        "checked",
        "child",
        "consumers",
        "controls",
        "count",
        "first",
        "frame",
        "index",
        "is_constant",
        "key",
        "kind",
        "last",
        "merge",
        "name",
        "needs_single",
        "node",
        "nones",
        "only",
        "reads",
        "whole_key",
    )

    def __init__(self, node: Node, kind: Kind, frame: StaticFrame) -> None:
        self.node = node
        self.name = node.name
        self.kind = int(kind)
        self.frame = frame
        self.merge = kind is Kind.MERGE
        self.index = len(frame.pending)
        self.count = len(node.output_types)
        self.first = frame.values
        size = 2 if self.merge else len(node.inputs)
        self.last = frame.values = frame.values + size
        self.nones: list[None] = [None] * size
        self.reads = reads_of(node)
        self.checked = () if node.signature.allows_uninitialized_input else ref_positions(node)
        self.needs_single = has_list_output(node) and self.count == 1
        self.consumers: list[tuple[tuple[NodeEntry, int, int], ...]] = []
        self.only: tuple[tuple[NodeEntry, int, int], ...] = ()
        self.controls: tuple[NodeEntry, ...] = ()
        self.call: Any = None
        self.child: StaticFrame | None = None
        self.is_constant = False
        self.key = ""
        self.whole_key = False
        controls = len(node.control_inputs)
        frame.pending.append(2 * controls + 1 if self.merge else controls + len(node.inputs))


def build_entries(graph: NodeGraph, env: Environment, heavy: frozenset[Node]) -> tuple[StaticFrame, list[NodeEntry]]:
    """Make the root frame and the entries of all nodes, in rank order; `heavy` are worth a thread of their own.

    Raises:
        InvalidArgumentError: the loops are malformed.
        OpError: a node has no kernel, or its kernel refuses its attributes.
    """
    check_cycles(graph)
    root, frames, children = static_frames(graph)
    order = sorted(graph, key=lambda n: n.rank)
    entries: dict[Node, NodeEntry] = {}
    for node in order:
        entries[node] = entry = NodeEntry(node, _kind(node, env, heavy), frames[node])
        _configure(entry, env, children.get(node))
    users = graph.consumers()
    _share_reads(entries, users)
    for node, consumers in users.items():
        entry = entries[node]
        by_slot: list[list[tuple[NodeEntry, int, int]]] = [[] for _ in range(entry.count)]
        controls: list[NodeEntry] = []
        for consumer, position in consumers:
            target = entries[consumer]
            if position == CONTROL:
                controls.append(target)
            else:
                where = target.first if target.merge else target.first + position
                by_slot[consumer.inputs[position].slot].append((target, where, position))
        entry.consumers = [tuple(c) for c in by_slot]
        entry.only = entry.consumers[0] if entry.count == 1 else ()
        entry.controls = tuple(controls)
    return root, list(entries.values())


_PLAIN = (Kind.KERNEL, Kind.STEP_KERNEL, Kind.BLOCKING, Kind.HEAVY, Kind.PASS, Kind.SEND, Kind.RETVAL)


def _share_reads(entries: dict[Node, NodeEntry], users: dict[Node, list[tuple[Node, int]]]) -> None:
    """Let plain reads of reference variables pass the variable on; who uses the value reads it.

    As in TensorFlow, where the read's result shares the variable's memory: a user sees the updates that ran before it.
    """
    for node, entry in entries.items():
        if node.op != "Identity" or not node.inputs[0].dtype.is_ref:
            continue
        data = [(entries[user], position) for user, position in users[node] if position != CONTROL]
        if all(user.kind in _PLAIN and not user.node.input_types[position].is_ref for user, position in data):
            entry.reads, entry.checked = (), (0,)
            for user, position in data:
                user.reads = (*user.reads, position)


def _configure(entry: NodeEntry, env: Environment, child: StaticFrame | None) -> None:
    node = entry.node
    kind = entry.kind
    if kind in (Kind.KERNEL, Kind.STEP_KERNEL, Kind.BLOCKING, Kind.HEAVY):
        entry.call = env.bind(node).call
        if kind in (Kind.BLOCKING, Kind.HEAVY) and not env.bind(node).spec.step:
            entry.call = _ignoring_step(entry.call)
    elif kind == Kind.CONST:
        try:
            entry.call = single(env.bind(node).call())
        except Exception as e:
            raise located(e, node.name) from e
    elif kind in (Kind.ARG, Kind.RETVAL):
        entry.call = env.ends.argument(node) if kind == Kind.ARG else env.ends.result(node)
    elif kind in (Kind.SEND, Kind.RECV):
        entry.key, entry.whole_key = key_prefix(node), is_client_terminated(node)
    elif kind == Kind.ENTER:
        entry.child = child
        entry.is_constant = bool(node.attr("is_constant"))
    elif kind == Kind.EXIT:
        entry.frame.exits.append(entry)


def _ignoring_step(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda step, *inputs: call(*inputs)


_KINDS = {
    **dict.fromkeys(SWITCHES, Kind.SWITCH),
    **dict.fromkeys(MERGES, Kind.MERGE),
    **dict.fromkeys(ENTERS, Kind.ENTER),
    **dict.fromkeys(EXITS, Kind.EXIT),
    **dict.fromkeys(NEXTS, Kind.NEXT),
    **dict.fromkeys(SENDS, Kind.SEND),
    **dict.fromkeys(RECVS, Kind.RECV),
    "_SwitchN": Kind.SWITCH_N,
    "_Arg": Kind.ARG,
    "_Retval": Kind.RETVAL,
    "Const": Kind.CONST,
    "NoOp": Kind.NOTHING,
    "ControlTrigger": Kind.TRIGGER,
}


def _kind(node: Node, env: Environment, heavy: frozenset[Node]) -> Kind:
    if env.ends.argument(node) is not None:
        return Kind.ARG
    if env.ends.result(node) is not None:
        return Kind.RETVAL
    built_in = _KINDS.get(node.op)
    if built_in is not None:
        return built_in
    if len(node.output_types) == 1 and op_promises(node.op, "passes"):
        return Kind.PASS
    if env.may_block(node):
        return Kind.BLOCKING
    if node in heavy:
        return Kind.HEAVY
    return Kind.STEP_KERNEL if env.bind(node).spec.step else Kind.KERNEL


def check_cycles(graph: NodeGraph) -> None:
    """Raise InvalidArgumentError unless every cycle goes from a NextIteration to a Merge."""
    consumers = graph.consumers()
    waiting = {
        node: len(node.control_inputs) + sum(not (node.op in MERGES and e.node.op in NEXTS) for e in node.inputs)
        for node in graph
    }
    ready = [node for node, count in waiting.items() if not count]
    while ready:
        node = ready.pop()
        for consumer, position in consumers[node]:
            if node.op in NEXTS and consumer.op in MERGES and position != CONTROL:
                continue
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    for node, count in waiting.items():
        if count:
            raise InvalidArgumentError(f"Graph contains a cycle through node '{node.name}'", node.name)


def static_frames(graph: NodeGraph) -> tuple[StaticFrame, dict[Node, StaticFrame], dict[Node, StaticFrame]]:
    """Find the root frame, the frame each node runs in, and the frame each Enter leads to."""
    root = StaticFrame("", None)
    frames: dict[Node, StaticFrame] = {}
    source: dict[Node, Node] = {}
    children: dict[Node, StaticFrame] = {}
    known: dict[tuple[StaticFrame, str], StaticFrame] = {}
    consumers = graph.consumers()
    work = [n for n in graph if not n.inputs and not n.control_inputs]
    frames.update(dict.fromkeys(work, root))
    while work:
        node = work.pop()
        frame = frames[node]
        if node.op in ENTERS:
            name = node.text_attr("frame_name")
            child = known.get((frame, name))
            if child is None:
                child = known[frame, name] = StaticFrame(name, frame, int(node.attr("parallel_iterations")))
            child.enters += 1
            children[node] = frame = child
        elif node.op in EXITS:
            if frame.parent is None:
                raise InvalidArgumentError(f"The node '{node.name}' exits a loop that was not entered.", node.name)
            frame = frame.parent
        for consumer, _ in consumers[node]:
            had = frames.get(consumer)
            if had is None:
                frames[consumer] = frame
                source[consumer] = node
                work.append(consumer)
            elif had is not frame:
                raise InvalidArgumentError(
                    f"The node '{consumer.name}' has inputs from different frames. The input '{node.name}' is in "
                    f"frame '{frame}'. The input '{source[consumer].name if consumer in source else ''}' is in frame "
                    f"'{had}'.",
                    consumer.name,
                )
    for node in graph:
        if node not in frames:
            raise InvalidArgumentError(f"The node '{node.name}' is part of a cycle that nothing enters.", node.name)
    return root, frames, children
