"""Orders in which the members of a group can merge an array that all get: which one suits, choice.py says.

All merge a flat array into another one that is theirs alone, and all members get the same bits: each piece is merged
once for all, or everywhere in the order of ranks.

Ring and exchange of pieces: Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations
(2009). Halving and doubling, trees: Thakur, Rabenseifner and Gropp, Optimization of collective communication operations
in MPICH (2005).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias

import numpy as np

from dtfctl.runtime.collective.algorithms import Algorithm, Array, Final, Group, Merge, cut, merge_all, others, receive
from dtfctl.runtime.collective.choice import Choice
from dtfctl.runtime.collective.coded import Coding, coded_pieces

Order: TypeAlias = Callable[[Group, Array, Array, Merge, Final], Generator[tuple[int, str], Array, None]]
"""Merges the arrays of all members, flat ones of one type and length; this one's is the second argument, which does not
change, and the third one is written."""
_Part: TypeAlias = Generator[tuple[int, str], Array, None]


def all_reduce(
    group: Group, value: Array, merge: Merge, final: Final, choice: Choice, coding: Coding | None = None
) -> Algorithm:
    """Merge the arrays of all members, which have one shape and type.

    Args:
        choice: the same in all members.
        coding: how pieces are encoded that go between hosts; of 32-bit floats that are added.
    """
    flat = np.ascontiguousarray(value).reshape(-1)
    out = group.empty(flat.shape, flat.dtype)
    yield from all_reduce_flat(group, flat, out, merge, final, choice, coding)
    return out.reshape(value.shape)


def all_reduce_flat(
    group: Group, flat: Array, out: Array, merge: Merge, final: Final, choice: Choice, coding: Coding | None
) -> _Part:
    """Merge flat arrays of all members into another one; see `all_reduce`."""
    if group.size == 1:
        np.copyto(out, flat)
        final(out)
    elif choice.chunks > 1:
        each = Choice(choice.name, choice.why, choice.inner, by_rack=choice.by_rack)
        parts = []
        for i, at in enumerate(cut(flat, choice.chunks)):
            all_of_it = _Within(group, range(group.size), f"{i}/")
            parts.append(all_of_it.run(all_reduce_flat(all_of_it, flat[at], out[at], merge, final, each, None)))
        yield from _pipelined(parts)
    elif choice.inner is not None:
        of = group.racks if choice.by_rack else group.hosts
        yield from _by_levels(group, of, flat, out, merge, final, choice.inner, coding)
    elif coding is not None and len(set(group.hosts)) > 1:
        yield from coded_pieces(group, flat, out, merge, final, coding)
    else:
        # Neighbours of a ring, or below one another in a tree, are best on one host, else where ways are good.
        ranks = sorted(range(group.size), key=group.places.__getitem__)
        placed = _Within(group, ranks, "")
        yield from placed.run(ORDERS[choice.name](placed, flat, out, merge, final))


def _pipelined(parts: Sequence[_Part]) -> _Part:
    """Go through parts side by side: one is on its way while another is merged."""
    wanted = [next(part, None) for part in parts]
    while any(asked is not None for asked in wanted):
        for i, asked in enumerate(wanted):
            if asked is not None:
                arrived = yield asked
                try:
                    wanted[i] = parts[i].send(arrived)
                except StopIteration:
                    wanted[i] = None


class _Within:
    """Some members of a group, as a group of their own.

    Args:
        ranks: in the group.
        prefix: of all tags, so that what is sent here is nothing else.
    """

    def __init__(self, group: Group, ranks: Sequence[int], prefix: str) -> None:
        self._group = group
        self._ranks = ranks
        self._prefix = prefix
        self.rank = ranks.index(group.rank)
        self.size = len(ranks)
        self.hosts: Sequence[int] = [group.hosts[rank] for rank in ranks]
        self.racks: Sequence[int] = [group.racks[rank] for rank in ranks]
        self.places: Sequence[int] = [group.places[rank] for rank in ranks]
        self.empty = group.empty

    def send(self, to: int, tag: str, value: Array) -> None:
        self._group.send(self._ranks[to], self._prefix + tag, value)

    def run(self, part: _Part) -> _Part:
        """Translate what a part of an algorithm waits for."""
        try:
            rank, tag = next(part)
            while True:
                rank, tag = part.send((yield self._ranks[rank], self._prefix + tag))
        except StopIteration:
            return


def gossip(group: Group, flat: Array, out: Array, merge: Merge, final: Final) -> _Part:
    """Send everything to everybody, and add up: one message each way, for what is short, and for two."""
    for other in others(group):
        group.send(other, "g", flat)
    yield from merge_all(group, "g", flat, out, merge)
    final(out)


def star(group: Group, flat: Array, out: Array, merge: Merge, final: Final) -> _Part:
    """Merge everything at the first member, and send it to all: as few messages as there can be."""
    if group.rank:
        group.send(0, "u", flat)
        np.copyto(out, (yield from receive(0, "d", flat.shape)))
        return
    yield from merge_all(group, "u", flat, out, merge)
    final(out)
    for other in others(group):
        group.send(other, "d", out)


def tree(group: Group, flat: Array, out: Array, merge: Merge, final: Final) -> _Part:
    """Merge along a binomial tree, and send the result back along it: few messages, and nobody has many."""
    rank, size = group.rank, group.size
    lowest = rank & -rank if rank else 1 << (size - 1).bit_length()
    children = [rank + (1 << bit) for bit in range(lowest.bit_length() - 1) if rank + (1 << bit) < size]
    merged = flat
    for child in children:
        merge(merged, (yield from receive(child, "u", flat.shape)), out=out)
        merged = out
    if rank:
        group.send(rank - lowest, "u", merged)
        # Who is above has had it before this changes it.
        np.copyto(out, (yield from receive(rank - lowest, "d", flat.shape)))
    else:
        final(out)
    # Those with the most below them first.
    for child in reversed(children):
        group.send(child, "d", out)


def pieces(group: Group, flat: Array, out: Array, merge: Merge, final: Final) -> _Part:
    """Add up a piece for all, and send it to all: each member sends as much as in a ring, in two messages a pair."""
    parts = cut(flat, group.size)
    for other in others(group):
        group.send(other, "s", flat[parts[other]])
    mine = out[parts[group.rank]]
    yield from merge_all(group, "s", flat[parts[group.rank]], mine, merge)
    final(mine)
    for other in others(group):
        group.send(other, "a", mine)
    for other in others(group):
        piece = out[parts[other]]
        np.copyto(piece, (yield from receive(other, "a", piece.shape)))


def ring(group: Group, flat: Array, out: Array, merge: Merge, final: Final) -> _Part:
    """Pass pieces round until each is added up somewhere, then round again: everybody talks to two neighbours only."""
    rank, size = group.rank, group.size
    after, before = (rank + 1) % size, (rank - 1) % size
    parts = cut(flat, size)
    group.send(after, "r0", flat[parts[rank]])
    for turn in range(size - 1):
        at = parts[(rank - turn - 1) % size]
        merge((yield from receive(before, f"r{turn}", out[at].shape)), flat[at], out=out[at])
        if turn == size - 2:
            final(out[at])
        group.send(after, f"r{turn + 1}", out[at])
    for turn in range(size - 1, 2 * size - 2):
        piece = out[parts[(rank - turn - 1) % size]]
        arrived = yield from receive(before, f"r{turn}", piece.shape)
        if turn < 2 * size - 3:
            group.send(after, f"r{turn + 1}", arrived)
        np.copyto(piece, arrived)


def halving(group: Group, flat: Array, out: Array, merge: Merge, final: Final) -> _Part:
    """Halve what is merged with one other at a time, then double what is known: few rounds, and few bytes.

    Of a number of members that is no power of two, some hand theirs to a neighbour first, and get the result from it.
    """
    rank, size = group.rank, group.size
    power = 1 << (size.bit_length() - 1)
    folded = size - power
    have = flat
    if rank < 2 * folded:
        if rank % 2 == 0:
            group.send(rank + 1, "x", flat)
            np.copyto(out, (yield from receive(rank + 1, "y", flat.shape)))
            return
        merge((yield from receive(rank - 1, "x", flat.shape)), flat, out=out)
        have = out
    place = rank // 2 if rank < 2 * folded else rank - folded
    parts = cut(flat, power)
    low, high, mask = 0, power, power // 2
    passed = []
    while mask:
        middle = low + mask
        partner = _rank_at(place ^ mask, folded)
        upper, lower = _span(parts, middle, high), _span(parts, low, middle)
        keep, give = (upper, lower) if place & mask else (lower, upper)
        group.send(partner, f"h{mask}", have[give])
        arrived = yield from receive(partner, f"h{mask}", have[keep].shape)
        first, second = (arrived, have[keep]) if place & mask else (have[keep], arrived)
        merge(first, second, out=out[keep])
        have = out
        passed.append((partner, mask, keep, give))
        low, high = (middle, high) if place & mask else (low, middle)
        mask //= 2
    final(out[_span(parts, low, high)])
    for partner, mask, keep, give in reversed(passed):
        group.send(partner, f"d{mask}", out[keep])
        # What was given is changed only now, as it comes back: the other one has had it.
        np.copyto(out[give], (yield from receive(partner, f"d{mask}", out[give].shape)))
    if rank < 2 * folded:
        group.send(rank - 1, "y", out)


def _rank_at(place: int, folded: int) -> int:
    return 2 * place + 1 if place < folded else place + folded


def _span(parts: Sequence[slice], first: int, after: int) -> slice:
    return slice(parts[first].start, parts[after - 1].stop)


def _by_levels(
    group: Group,
    of: Sequence[int],
    flat: Array,
    out: Array,
    merge: Merge,
    final: Final,
    inner: Choice,
    coding: Coding | None,
) -> _Part:
    """Merge in each host (or rack) first, then pieces over these, and let all within have them: least goes between.

    Args:
        of: the host (or rack) of each member.
        inner: how members of different ones merge a piece.
    """
    by_host: dict[int, list[int]] = {}
    for rank, host in enumerate(of):
        by_host.setdefault(host, []).append(rank)
    mine = by_host[of[group.rank]]
    local = mine.index(group.rank)
    parts = cut(flat, min(map(len, by_host.values())))
    inside = _Within(group, mine, "i")
    for owner, at in enumerate(parts):
        if owner != local:
            inside.send(owner, "u", flat[at])
    if local < len(parts):
        at = parts[local]
        merged = flat[at]
        if len(mine) > 1:
            merged = group.empty(merged.shape, merged.dtype)
            yield from inside.run(merge_all(inside, "u", flat[at], merged, merge))
        across = _Within(group, [ranks[local] for ranks in by_host.values()], "o")
        yield from across.run(all_reduce_flat(across, merged, out[at], merge, final, inner, coding))
        for other in range(len(mine)):
            if other != local:
                inside.send(other, "d", out[at])
    yield from inside.run(_collect(inside, local, parts, out))


def _collect(inside: Group, local: int, parts: Sequence[slice], out: Array) -> _Part:
    for owner, at in enumerate(parts):
        if owner != local:
            np.copyto(out[at], (yield from receive(owner, "d", out[at].shape)))


ORDERS: dict[str, Order] = {
    "gossip": gossip,
    "star": star,
    "tree": tree,
    "pieces": pieces,
    "ring": ring,
    "halving": halving,
}
"""Finds an order by its name."""
