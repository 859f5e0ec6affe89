"""Look-ups that a plan makes in whatever order they are asked for.

A receive, the look-ups of rows that what it brings names, and the sends of what was found are a stage. Stages that
follow each other in a plan and need nothing of each other are run as their receives arrive: who asks first need not
wait for who asks late. Nothing else is in such a stage, so the order changes no value, and no buffer of the plan is in
it.

A variable is read in each stage anew, at the look-up: nobody holds a table while the plan waits, as it would have to be
copied before its rows are changed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from dtfctl.runtime.executor.binding import reads_of
from dtfctl.runtime.executor.keys import is_client_terminated
from dtfctl.runtime.framework.node_graph import Node
from dtfctl.runtime.framework.structural_ops import RECVS, SENDS
from dtfctl.runtime.kernels.registry import op_promises


class Group(NamedTuple):
    """Stages of a plan that may be run in any order.

    Attributes:
        stages: their positions, one after the other.
        reads: the positions of reads of variables in them, which only look-ups in them use.
    """

    stages: list[range]
    reads: frozenset[int]

    @property
    def left(self) -> str:
        """The local of a plan that has the stages which have not begun."""
        return f"left{self.stages[0].start}"

    @property
    def positions(self) -> range:
        return range(self.stages[0].start, self.stages[-1].stop)

    def left_and_done(self, at: int, left: Sequence[int]) -> tuple[set[int], set[int]]:
        """Find the positions before `at`, which is in a stage, that have not run, and those after it that have.

        Args:
            left: the stages that have not begun.
        """
        missing = {i for n in left for i in self.stages[n] if i < at}
        missing |= {i for i in self.reads if i < at}
        begun = [s for n, s in enumerate(self.stages) if n not in left and at not in s]
        done = {i for s in begun for i in s if i > at} - self.reads
        return missing, done


def find_groups(order: Sequence[Node], placed: Container[tuple[Node, int]]) -> list[Group]:
    """Find the groups of stages in a plan that may run in the order in which their receives arrive.

    Args:
        placed: outputs that are in buffers of the plan.
    """
    position = {node: i for i, node in enumerate(order)}
    groups: list[Group] = []
    stages: list[range] = []
    i = 0
    while i < len(order):
        stop = _stage_end(order, i, position, stages[0].start if stages else i, placed)
        if stop > i:
            stages.append(range(i, stop))
            i = stop
            continue
        if not stages:
            i += 1
        groups += _group(order, stages, position)
        stages = []
    return groups + _group(order, stages, position)


def _stage_end(
    order: Sequence[Node],
    start: int,
    position: dict[Node, int],
    first: int,
    placed: Container[tuple[Node, int]],
) -> int:
    """Find the end of the stage that begins at `start`, in a group that began at `first`; `start` if there is none."""
    if not _is_receive(order[start]) or order[start].inputs or order[start].control_inputs:
        return start
    found = False
    i = start + 1
    while i < len(order) and not _is_receive(order[i]):
        node = order[i]
        is_read = _is_read(node)
        is_send = node.op in SENDS and not is_client_terminated(node)
        if not (is_read or is_send or op_promises(node.op, "looks_up")) or (reads_of(node) and not is_read):
            break
        if any((node, slot) in placed for slot in range(len(node.output_types))):
            break
        sources = [e.node for e in node.inputs if not _is_read(e.node)] + node.control_inputs
        if any(first <= position[s] < start for s in sources):
            break
        found = found or op_promises(node.op, "looks_up")
        i += 1
    return i if found else start


def _group(order: Sequence[Node], stages: list[range], position: dict[Node, int]) -> list[Group]:
    if len(stages) < 2:
        return []
    within = range(stages[0].start, stages[-1].stop)
    reads = frozenset(i for i in within if _is_read(order[i]))
    for i, node in enumerate(order):
        for edge in node.inputs:
            if position[edge.node] in reads and not (i in within and op_promises(node.op, "looks_up")):
                return []
        if any(position[c] in reads for c in node.control_inputs):
            return []
    return [Group(stages, reads)]


def _is_receive(node: Node) -> bool:
    return node.op in RECVS and not is_client_terminated(node)


def _is_read(node: Node) -> bool:
    """Tell whether the node reads a variable by reference, and does nothing else."""
    return node.op == "Identity" and bool(reads_of(node)) and not node.control_inputs
