"""In which order a partition's nodes run when they run one after the other."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from math import prod
from operator import attrgetter
from typing import NamedTuple

from dtfctl.runtime.executor.keys import is_client_terminated
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import CONTROL, Edge, Node, NodeGraph
from dtfctl.runtime.framework.structural_ops import COLLECTIVE_START, RECVS, VARIABLES

_RANK = attrgetter("rank")
_UPDATES = frozenset({"AssignAdd", "AssignSub", "AssignAddVariableOp", "AssignSubVariableOp"})
_READS = frozenset({"Identity", "ReadVariableOp"})
# Elements of a variable that is small.
_SMALL = 1 << 14


class Schedule(NamedTuple):
    """An order in which the nodes of a graph run one after the other.

    Attributes:
        order: the nodes, topologically.
        is_safe: running them in that order cannot wait for ever; else nodes must be able to wait beside each other.
    """

    order: list[Node]
    is_safe: bool


def sequential_order(graph: NodeGraph, may_block: Callable[[Node], bool]) -> Schedule:
    """Order a graph topologically by rank, with whatever waits for others as late as it can be.

    Everything that can run before a receive, sends above all, does; pending receives are taken in rank order. With
    ranks from one topological order of all partitions no two partitions can wait for each other: of all receives
    being waited for, the one of least rank has its send's ancestors all of lower rank, so nothing holds that send back.
    A kernel that may block has no such order, so the schedule is safe only if nothing else is pending beside one.

    What a group computes depends on all its members, which the ranks do not tell. What must be waited for before such a
    computation can begin is waited for first; where that is the result of one, and something else is waited for that
    another one needs, no order is safe: another member may begin them the other way round.

    Raises:
        InvalidArgumentError: the graph has a cycle.
    """
    order = _in_rank_order(graph, may_block)
    if order is not None:
        return Schedule(_settled(order, graph, may_block), True)
    position = {node: i for i, node in enumerate(graph)}
    left = {node: len(node.inputs) + len(node.control_inputs) for node in graph}
    consumers = graph.consumers()
    ready: list[tuple[int, int, Node]] = []
    waiting: list[tuple[bool, int, int, Node]] = []
    urgent = _before_collectives(graph)
    blocking: set[Node] = set()
    is_safe = True

    def add(node: Node) -> None:
        blocks = may_block(node)
        if blocks:
            blocking.add(node)
        waits = blocks or (node.op in RECVS and not is_client_terminated(node))
        if waits:
            heapq.heappush(waiting, (node not in urgent, node.rank, position[node], node))
        else:
            heapq.heappush(ready, (node.rank, position[node], node))

    for node, count in left.items():
        if not count:
            add(node)
    order = []
    while ready or waiting:
        if ready:
            node = heapq.heappop(ready)[2]
        else:
            is_safe = is_safe and not (blocking and len(waiting) > 1) and not _is_undecided(waiting, urgent)
            node = heapq.heappop(waiting)[3]
            blocking.discard(node)
        order.append(node)
        for consumer, _ in consumers[node]:
            left[consumer] -= 1
            if not left[consumer]:
                add(consumer)
    if len(order) != len(left):
        stuck = next(node for node, count in left.items() if count)
        raise InvalidArgumentError(f"Graph contains a cycle through node '{stuck.name}'", stuck.name)
    return Schedule(_settled(order, graph, may_block), is_safe)


def _before_collectives(graph: NodeGraph) -> set[Node]:
    """Find the nodes that must have run before some computation of a group begins."""
    found: set[Node] = set()
    stack = [node for node in graph if node.op == COLLECTIVE_START]
    while stack:
        node = stack.pop()
        for source in (*(edge.node for edge in node.inputs), *node.control_inputs):
            if source not in found:
                found.add(source)
                stack.append(source)
    return found


def _is_undecided(waiting: list[tuple[bool, int, int, Node]], urgent: set[Node]) -> bool:
    """Tell whether computations of groups need several things waited for, the result of another one among them."""
    if not urgent:
        return False
    needed = [node for *_, node in waiting if node in urgent]
    return len(needed) > 1 and any(c.op == COLLECTIVE_START for node in needed for c in node.control_inputs)


def _in_rank_order(graph: NodeGraph, may_block: Callable[[Node], bool]) -> list[Node] | None:
    """Order the nodes as their ranks say, where that is enough; None where it is not.

    It is where no kernel may block, receives wait for nothing here, and every other node has a higher rank than its
    inputs. The n-th receive then begins stage n, in which what needs it, and no later one, runs by rank.
    """
    stage: dict[Node, int] = {}
    stages: list[list[Node]] = [[]]
    for node in sorted(graph, key=_RANK):
        if may_block(node):
            return None
        if node.op in RECVS and not is_client_terminated(node):
            if node.inputs or node.control_inputs:
                return None
            stage[node] = len(stages)
            stages.append([node])
            continue
        at = 0
        for source, _ in node.inputs:
            before = stage.get(source)
            if before is None:
                return None
            if before > at:
                at = before
        for source in node.control_inputs:
            before = stage.get(source)
            if before is None:
                return None
            if before > at:
                at = before
        stage[node] = at
        stages[at].append(node)
    return list(chain.from_iterable(stages))


def _settled(order: list[Node], graph: NodeGraph, may_block: Callable[[Node], bool]) -> list[Node]:
    """Move what reads and what updates variables to where it belongs."""
    return _with_late_updates(_with_late_reads(order, graph), graph, may_block)


def _with_late_updates(order: list[Node], graph: NodeGraph, may_block: Callable[[Node], bool]) -> list[Node]:
    """Move each update of a small variable to just before what needs it, touches its variable, or waits for others.

    The moving averages of a normalization would stand between what comes before and behind it otherwise, which can be
    one call (kernels/native/tape.py). Of a large variable the new value would take room meanwhile.
    """
    updates = [node for node in order if node.op in _UPDATES and _is_small(node.inputs[0].node)]
    if not updates:
        return order
    place = {node: i for i, node in enumerate(order)}
    consumers = graph.consumers()
    waits = [
        i for i, node in enumerate(order) if may_block(node) or (node.op in RECVS and not is_client_terminated(node))
    ]
    before: dict[int, list[Node]] = {}
    for update in updates:
        touching = [user for user, _ in (*consumers[update], *consumers[update.inputs[0].node])]
        # What is read shares the variable's memory.
        touching += [user for read in touching if read.op in _READS for user, _ in consumers[read]]
        after = place[update]
        ends = [at for at in (*(place[user] for user in touching if user in place), *waits) if at > after]
        before.setdefault(min(ends, default=len(order)), []).append(update)
    moved = set(updates)
    settled: list[Node] = []
    for i, node in enumerate(order):
        settled += before.get(i, ())
        if node not in moved:
            settled.append(node)
    return settled + before.get(len(order), [])


def _is_small(variable: Node) -> bool:
    """Tell whether a node is a variable that is known to be small."""
    shape = variable.attr("shape") if variable.op in VARIABLES else None
    return shape is not None and shape.is_fully_defined() and prod(shape.as_list()) <= _SMALL


def _with_late_reads(order: list[Node], graph: NodeGraph) -> list[Node]:
    """Move each plain read of a reference variable to just before its first user.

    In TensorFlow the read's result shares the variable's memory, so a user sees the updates that ran before itself,
    not only those that ran before the read. Programs order the user, not the read, after an update: the tokens of
    SyncReplicasOptimizer do. A later user that comes after an update, and that the program orders after it or
    after something else, reads for itself: the powers of Adam do, where an optimizer is applied twice in a step.
    """
    reads = [node for node in order if node.op == "Identity" and node.inputs[0].dtype.is_ref]
    if not reads:
        return order
    place = {node: i for i, node in enumerate(order)}
    consumers = graph.consumers()
    before: dict[Node, list[Node]] = {}
    for node in reads:
        if consumers[node]:
            first = min((user for user, _ in consumers[node]), key=place.__getitem__)
            before.setdefault(first, []).append(node)
    moved = {read for late in before.values() for read in late}
    for read in reads:
        _read_again(read, graph, consumers, place, before)
    return [item for node in order if node not in moved for item in (*before.get(node, ()), node)]


def _read_again(
    read: Node,
    graph: NodeGraph,
    consumers: Mapping[Node, list[tuple[Node, int]]],
    place: Mapping[Node, int],
    before: dict[Node, list[Node]],
) -> None:
    """Give users of a read that come after an update of its variable, and wait for something, a later read."""
    variable = read.inputs[0]
    updates = [
        node
        for node, at in consumers[variable.node]
        if at != CONTROL and node.inputs[at] == variable and node.input_types[at].is_ref and node.op != "RefEnter"
    ]
    users = sorted({user for user, at in consumers[read] if at != CONTROL}, key=place.__getitem__)
    if not updates or len(users) < 2:
        return
    first = since = place[users[0]]
    newest = read
    for user in users[1:]:
        missed = [update for update in updates if first <= place[update] < place[user]]
        if not missed or not (user.control_inputs or _follows(user, missed, place)):
            continue
        if any(since <= place[update] for update in missed):
            since, newest = place[user], read.copy(f"{read.name}/_before/{user.name}")
            newest.inputs = [variable]
            graph.add(newest)
            before.setdefault(user, []).append(newest)
        user.inputs = [Edge(newest, 0) if edge.node is read else edge for edge in user.inputs]


def _follows(node: Node, others: Collection[Node], place: Mapping[Node, int]) -> bool:
    """Tell whether a node needs one of others, which have places before its own."""
    least = min(place[other] for other in others)
    seen, stack = {node}, [node]
    while stack:
        at = stack.pop()
        for source in (*(edge.node for edge in at.inputs), *at.control_inputs):
            if source in others:
                return True
            if source not in seen and place.get(source, -1) > least:
                seen.add(source)
                stack.append(source)
    return False
