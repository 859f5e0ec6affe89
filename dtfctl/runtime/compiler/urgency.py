"""In which order what a step sends to another task is needed.

What this step needs there goes first, by who needs it first. A gradient is not needed in this step by anything but the
update of its variable: it is as urgent as that variable's value is at the beginning of the next step, so that of the
first layer, which exists last, overtakes those of all others that still wait (ByteScheduler, P3). What is fetched ahead
is as urgent as what computes with the copy it is fetched into.

What a group computes is looked at in the same way: an attribute says how urgent each computation is among those of its
device, and whatever a member sends for it goes by that. Members need not agree on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.node_graph import Edge, Node
from dtfctl.runtime.framework.structural_ops import COLLECTIVES, SENDS, URGENCY_ATTR, VARIABLES
from dtfctl.runtime.framework.transfer_names import URGENCIES, transfer_name

_RANK = attrgetter("rank")
# Who only hands a value on does not need it.
_PASSES = frozenset(
    {"Identity", "IdentityN", "ReadVariableOp", "Cast", "EncodeTensor", "DecodeTensor", "CompressedTransfer"}
)
_NEVER = 1 << 62
_NOW, _NEXT = 0, 1
# Whose outputs have nothing to do with each other's inputs.
_EACH_BY_ITSELF = "IdentityN"
_Value: TypeAlias = Node | tuple[Node, int]
"""What a node computes, of one of those that pass each input on by itself an output."""


@dataclass(frozen=True, eq=False)
class Transfer:
    """A value on its way from one task to another.

    Attributes:
        way: between which two.
        number: of it in the step.
        is_ahead: whether only the next step needs it.
    """

    send: Node
    recv: Node
    way: tuple[str, str]
    source: str
    number: int
    is_ahead: bool


def mark_by_urgency(transfers: Sequence[Transfer], parts: Sequence[Iterable[Node]]) -> None:
    """Give transfers the names that say how urgent each is among those of its way, and what groups compute the
    attribute that says it among those of its device.

    Args:
        parts: the nodes of each task, all with ranks of one order.
    """
    ways: dict[tuple[tuple[str, str], bool], list[Transfer]] = defaultdict(list)
    for transfer in transfers:
        ways[transfer.way, transfer.is_ahead].append(transfer)
    groups: dict[str, list[Node]] = defaultdict(list)
    for part in parts:
        for node in part:
            if node.op in COLLECTIVES:
                groups[node.device].append(node)
    if all(len(those) < 2 for those in ways.values()) and all(len(those) < 2 for those in groups.values()):
        return
    needs = _Needs(transfers, [sorted(part, key=_RANK, reverse=True) for part in parts])
    keys = needs.keys()
    for nodes in groups.values():
        nodes.sort(key=lambda node: (*needs.of(node), node.rank))
        for place, node in enumerate(nodes):
            value = graph_pb2.AttrValue(i=place * URGENCIES // len(nodes))
            node.turn_into(node.signature, {**node.raw_attrs, URGENCY_ATTR: value})
    for (_, is_ahead), those in ways.items():
        those.sort(key=lambda transfer: (*keys[transfer], transfer.number))
        for place, transfer in enumerate(those):
            urgency = place * URGENCIES // len(those)
            if urgency:
                name = transfer_name(transfer.number, transfer.source, urgency, is_ahead)
                value = graph_pb2.AttrValue(s=name.encode())
                for node in (transfer.send, transfer.recv):
                    node.turn_into(node.signature, {**node.raw_attrs, "tensor_name": value})


class _Needs:
    """Who needs what when, by ranks.

    Args:
        parts: each with those nodes first that are run last.
    """

    def __init__(self, transfers: Sequence[Transfer], parts: Sequence[Sequence[Node]]) -> None:
        self._parts = parts
        self._transfers = transfers
        self._by_send = {transfer.send: transfer for transfer in transfers}
        # By node: when its value is computed with here, which transfers carry it on as it is, and whether anything but
        # an update of a variable comes of it.
        self._first: dict[_Value, int] = {}
        self._carried: dict[_Value, list[Transfer]] = defaultdict(list)
        self._leads: set[_Value] = set()
        # The variables that are written with it, and when each is needed.
        self._written: dict[_Value, set[Node]] = defaultdict(set)
        self._needed: dict[Node, int] = {}
        for part in parts:
            for node in part:
                self._look_at(node)

    def _look_at(self, node: Node) -> None:
        if node.op in VARIABLES:
            return
        if node.op == _EACH_BY_ITSELF:
            for slot, edge in enumerate(node.inputs):
                self._pass_on((node, slot), node, [edge], set())
        else:
            self._pass_on(node, node, node.inputs, _written_by(node))

    def _pass_on(self, value: _Value, node: Node, inputs: Sequence[Edge], written: set[Node]) -> None:
        """Note for inputs of a node what is known of a value that it computes of them."""
        transfer = self._by_send.get(node)
        leads = value in self._leads or not (written or value in self._written)
        passes = node.op in _PASSES
        for edge in inputs:
            source = _value_of(edge)
            if source in written:
                continue
            if transfer is not None:
                self._carried[source].append(transfer)
            elif passes:
                self._carried[source] += self._carried.get(value, ())
            need = self._first.get(value, _NEVER) if passes else _NEVER if node.op in SENDS else node.rank
            self._first[source] = min(self._first.get(source, _NEVER), need)
            if written:
                self._written[source] |= written
            else:
                if value in self._written:
                    self._written[source] |= self._written[value]
                if leads and not (transfer is not None and transfer.is_ahead):
                    self._leads.add(source)

    def keys(self) -> Mapping[Transfer, tuple[int, int]]:
        """Order transfers: whether this step or the next one needs each, and from which rank on."""
        needed = self._needed
        found: dict[Transfer, tuple[int, int]] = {}
        # Copies that are fetched ahead first: their originals are needed when they are.
        for transfer in self._transfers:
            if transfer.is_ahead:
                copies = self._written.get(transfer.recv, ())
                found[transfer] = _NEXT, min((self._first.get(copy, _NEVER) for copy in copies), default=_NEVER)
        for part in self._parts:
            for node in part:
                if node.op in VARIABLES:
                    carried = (
                        found[t][1] if t.is_ahead else self._first.get(t.recv, _NEVER)
                        for t in self._carried.get(node, ())
                    )
                    needed[node] = min(carried, default=self._first.get(node, _NEVER))
        for transfer in self._transfers:
            if transfer not in found:
                found[transfer] = self.of(transfer.recv)
        return found

    def of(self, node: Node) -> tuple[int, int]:
        """Tell whether this step or the next one needs what a node brings, and from which rank on; after `keys`."""
        updates = self._written.get(node)
        if node in self._leads or not updates:
            return _NOW, self._first.get(node, node.rank)
        return _NEXT, min(self._needed[variable] for variable in updates)


def _value_of(edge: Edge) -> _Value:
    return (edge.node, edge.slot) if edge.node.op == _EACH_BY_ITSELF else edge.node


def _written_by(node: Node) -> set[Node]:
    """Find the variables that a node changes."""
    if not node.inputs:
        return set()
    first = node.inputs[0].node
    if first.op not in VARIABLES:
        return set()
    changes = not node.output_types if first.op == "VarHandleOp" else node.input_types[0].is_ref
    return {source for source, _ in node.inputs if source.op in VARIABLES} if changes else set()
