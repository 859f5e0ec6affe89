"""The orders in which TensorFlow's servers compute with a group.

Algorithms as in algorithms.py, for groups that such servers are members of. All members follow the same order, with
the same names of pieces: who receives fetches them by name, and who sends leaves them until they were fetched.
TensorFlow's own names for the orders are RingReduce, RingGather, HierarchicalTreeBroadcast and AllToAll.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dtfctl.runtime.collective.algorithms import Algorithm, Array, Final, Group, Merge

TAKEN = "/taken"
"""Added to the name of a piece: what is received under that from a member means that it has fetched the piece."""
_ALIGN = 64
_CHUNK_BYTES = 4 << 20
_SUBDIVS = 2


class MixedGroup(Group, Protocol):
    """A group with members that fetch what they receive.

    Attributes:
        tasks: of the members, by rank; devices of a task stand beside each other.
    """

    tasks: Sequence[str]

    def fetch(self, rank: int, tag: str, count: int, dtype: Any) -> None:
        """Ask for an array of one dimension that is yielded for later."""

    def fetches(self, rank: int) -> bool:
        """Tell whether a member fetches what it is sent, and `TAKEN` is to be waited for."""


@dataclass(frozen=True)
class _Ring:
    """A ring of all members.

    Attributes:
        order: ranks in the group, by place in the ring.
        place: of this member.
        number: of the ring, of as many as the array is cut for.
    """

    order: Sequence[int]
    place: int
    number: int

    @property
    def before(self) -> int:
        return self.order[self.place - 1]

    @property
    def after(self) -> int:
        return self.order[(self.place + 1) % len(self.order)]


def ring_reduce(
    group: MixedGroup, value: Array, merge: Merge, final: Final, offsets: Sequence[int] = (), most_subdivs: int = -1
) -> Algorithm:
    """Merge the arrays of all members, which have one shape and type.

    Args:
        offsets: of the rings among the devices of each task; without any they follow from the size.
        most_subdivs: rings a device of a task, at most; -1 for one ring in all.
    """
    offsets = tuple(offsets) or _offsets(group, value.nbytes, most_subdivs)
    rings = [_ring(group, offset, number) for number, offset in enumerate(offsets)]
    out = group.empty(value.shape, value.dtype)
    np.copyto(out, value)
    flat = out.reshape(-1)
    pieces = _aligned(flat, group.size * len(rings))
    relay = _Relay(group, flat, pieces, rings)
    relay.ask(0, lambda ring, turn: ring.place - 1 - turn)
    relay.ask(1, lambda ring, turn: ring.place - turn)
    for ring in rings:
        relay.send(0, ring, ring.place)
    for turn, ring in itertools.product(range(group.size - 1), rings):
        chunk = (ring.place - 1 - turn) % group.size
        piece = relay.piece(ring, chunk)
        if len(piece):
            merge(piece, (yield from relay.receive(0, ring, chunk)), out=piece)
        if turn == group.size - 2:
            final(piece)
        else:
            relay.send(0, ring, chunk)
    for ring in rings:
        relay.send(1, ring, (ring.place + 1) % group.size)
    for turn, ring in itertools.product(range(group.size - 1), rings):
        chunk = (ring.place - turn) % group.size
        piece = relay.piece(ring, chunk)
        if len(piece):
            np.copyto(piece, (yield from relay.receive(1, ring, chunk)))
        if turn < group.size - 2:
            relay.send(1, ring, chunk)
    yield from relay.ended()
    return out


def ring_gather(group: MixedGroup, value: Array) -> Algorithm:
    """Put the arrays of all members, which have one shape, one below the other, by rank."""
    ring = _ring(group, 0, 0)
    out = group.empty((len(value) * group.size, *value.shape[1:]), value.dtype)
    flat = out.reshape(-1)
    pieces = [slice(value.size * i, value.size * (i + 1)) for i in range(group.size)]
    relay = _Relay(group, flat, pieces, [ring])
    relay.ask(0, lambda ring, turn: ring.place - 1 - turn)
    np.copyto(flat[pieces[ring.place]], value.reshape(-1))
    relay.send(0, ring, ring.place)
    for turn in range(group.size - 1):
        chunk = (ring.place - 1 - turn) % group.size
        if len(relay.piece(ring, chunk)):
            np.copyto(relay.piece(ring, chunk), (yield from relay.receive(0, ring, chunk)))
        if turn < group.size - 2:
            relay.send(0, ring, chunk)
    yield from relay.ended()
    return out


def all_to_all(group: MixedGroup, value: Array) -> Algorithm:
    """Send the n-th of the first dimension to the n-th member, and put what came in the order of ranks."""
    out = group.empty(value.shape, value.dtype)
    others = [rank for rank in range(group.size) if rank != group.rank]
    count = value[0].size
    for rank in others:
        group.fetch(rank, f"{rank}{group.rank}", count, value.dtype)
        group.send(rank, f"{group.rank}{rank}", np.ascontiguousarray(value[rank]).reshape(-1))
    np.copyto(out[group.rank], value[group.rank])
    for rank in others:
        np.copyto(out[rank].reshape(-1), (yield rank, f"{rank}{group.rank}"))
    for rank in filter(group.fetches, others):
        yield rank, f"{group.rank}{rank}{TAKEN}"
    return out


def tree_broadcast(group: MixedGroup, source: int, value: Array | None, shape: Sequence[int], dtype: Any) -> Algorithm:
    """Give all members the array of one: along a tree over the tasks, then along one over the devices of each.

    Args:
        value: the array in the member that is the source.
        shape, dtype: of the array.
    """
    have = None if value is None else np.ascontiguousarray(value).reshape(-1)
    count = int(np.prod(shape, dtype=np.int64))
    sent: list[tuple[int, str]] = []
    for number, (ranks, root) in enumerate(_trees(group.tasks, source)):
        if group.rank not in ranks:
            continue
        place = ranks.index(group.rank)
        parent, children = _parent_and_children(place, len(ranks), root, group.rank == source)
        if place != root:
            tag = f":{number}:{parent}:{place}"
            group.fetch(ranks[parent], tag, count, dtype)
            have = yield ranks[parent], tag
        assert have is not None
        for child in children:
            tag = f":{number}:{place}:{child}"
            group.send(ranks[child], tag, have)
            sent.append((ranks[child], tag))
        for rank, tag in sent:
            if group.fetches(rank):
                yield rank, tag + TAKEN
        sent.clear()
    assert have is not None
    return have.reshape(shape)


def _trees(tasks: Sequence[str], source: int) -> list[tuple[list[int], int]]:
    """List the ranks of each tree and which of them is its root: first that of the tasks, then one a task."""
    by_task = [[rank for rank, _ in found] for _, found in itertools.groupby(enumerate(tasks), key=lambda at: at[1])]
    inside = [(ranks, ranks.index(source) if source in ranks else 0) for ranks in by_task]
    if len(by_task) == 1:
        return inside
    heads = [source if source in ranks else ranks[0] for ranks in by_task]
    return [(heads, heads.index(source)), *inside]


def _parent_and_children(place: int, size: int, root: int, is_source: bool) -> tuple[int, list[int]]:
    """Find the neighbours of a place in a tree of places: n above 2n + 1 and 2n + 2, behind the root if it is not 0."""
    parent = (place - 1) // 2 if root == 0 else place // 2 - 1
    first = 2 * place + 1 if root == 0 else 2 * (place + 1)
    children = []
    if is_source and root != 0:
        children = [child for child in (0, 1)[: size - 1] if child != root]
    children += [child for child in (first, first + 1) if child < size and child != root]
    return (root if parent < 0 else parent), children


class _Relay:
    """Pieces of an array on their way round rings."""

    def __init__(self, group: MixedGroup, flat: Array, pieces: Sequence[slice], rings: Sequence[_Ring]) -> None:
        self._group = group
        self._flat = flat
        self._pieces = pieces
        self._rings = rings
        self._sent: list[tuple[int, str]] = []

    def _section(self, ring: _Ring, chunk: int) -> int:
        return chunk * len(self._rings) + ring.number

    def piece(self, ring: _Ring, chunk: int) -> Array:
        return self._flat[self._pieces[self._section(ring, chunk)]]

    def ask(self, again: int, chunk_at: Callable[[_Ring, int], int]) -> None:
        """Fetch all pieces of the first or second time round."""
        size = self._group.size
        for turn, ring in itertools.product(range(size - 1), self._rings):
            chunk = chunk_at(ring, turn) % size
            count = len(self.piece(ring, chunk))
            if count:
                self._group.fetch(ring.before, self._received(again, ring, chunk), count, self._flat.dtype)

    def _received(self, again: int, ring: _Ring, chunk: int) -> str:
        return f":{again}:{self._section(ring, chunk)}:{(ring.place - 1) % self._group.size}"

    def receive(self, again: int, ring: _Ring, chunk: int) -> Algorithm:
        arrived = yield ring.before, self._received(again, ring, chunk)
        return arrived

    def send(self, again: int, ring: _Ring, chunk: int) -> None:
        piece = self.piece(ring, chunk)
        if len(piece):
            tag = f":{again}:{self._section(ring, chunk)}:{ring.place}"
            # It changes here only when it has come round, and for that the next one must have had it.
            self._group.send(ring.after, tag, piece)
            self._sent.append((ring.after, tag))

    def ended(self) -> Algorithm:
        """Wait until all that was sent was fetched."""
        for rank, tag in self._sent:
            if self._group.fetches(rank):
                yield rank, tag + TAKEN
        return self._flat


def _ring(group: MixedGroup, offset: int, number: int) -> _Ring:
    """Lay a ring through all members: in each task from its device of that number on, backwards if it is negative."""
    order: list[int] = []
    for _, found in itertools.groupby(enumerate(group.tasks), key=lambda at: at[1]):
        ranks = [rank for rank, _ in found]
        turned = [(i + abs(offset)) % len(ranks) for i in range(len(ranks))]
        order += [ranks[len(ranks) - 1 - i if offset < 0 else i] for i in turned]
    return _Ring(order, order.index(group.rank), number)


def _offsets(group: MixedGroup, nbytes: int, most_subdivs: int) -> tuple[int, ...]:
    if most_subdivs == -1:
        return (0,)
    each = group.size // len(set(group.tasks))
    most = (most_subdivs if most_subdivs > 0 else _SUBDIVS) * each
    count = 1
    while nbytes // (group.size * count) > _CHUNK_BYTES and count < most:
        count += 1
    stride = max(each // count, 1)
    return tuple(-stride * i if i % 2 else stride * i for i in range(count))


def _aligned(flat: Array, parts: int) -> list[slice]:
    """Cut an array as TensorFlow does: in parts of the same whole number of cache lines, and always a bit more."""
    each = -(-flat.size // parts)
    nbytes = each * flat.itemsize
    each += (_ALIGN - nbytes % _ALIGN) // flat.itemsize
    return [slice(min(each * i, flat.size), min(each * (i + 1), flat.size)) for i in range(parts)]
