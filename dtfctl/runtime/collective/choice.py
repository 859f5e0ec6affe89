"""Which order suits an all-reduce, and why: from its size, who stands where, and what links carry.

The estimate follows Hockney's model (a message costs a latency, and its bytes at a rate), with what a message costs the
processors of a host: several members of one host share these, and its link to others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from dtfctl.runtime.collective.topology import UNKNOWN, Plan

CHUNK_BYTES = 4 << 20
"""Arrays between hosts are merged in parts of about this size, one on its way while another is merged."""
MOST_CHUNKS = 8


_MERGED = 1.5
"""What merging a byte takes, of what copying takes: it reads twice."""
_BOTH = _MERGED + 1


@dataclass(frozen=True)
class Costs:
    """What communication costs, in seconds, and bytes a second.

    Attributes:
        inside_s, between_s: from a message's being sent until it is dealt with, in a host and between two.
        message_s: of a processor, to send a message and deal with it.
        copy_bytes_s: of a processor, to copy; what is merged counts one and a half times.
        between_bytes_s: of a host's link, in each direction; used where nothing was measured.
    """

    inside_s: float = 30e-6
    between_s: float = 100e-6
    message_s: float = 14e-6
    copy_bytes_s: float = 12e9
    between_bytes_s: float = 1e9


@dataclass(frozen=True)
class Layout:
    """Where the members of a group stand.

    Attributes:
        hosts: by rank: a number that those on one host have in common.
        cores: by rank: processors of its host.
        plan: what is known of the ways between hosts.
    """

    hosts: tuple[int, ...]
    cores: tuple[int, ...] = ()
    plan: Plan = UNKNOWN
    costs: Costs = Costs()

    @property
    def racks(self) -> tuple[int, ...]:
        """Give the members' racks, by rank."""
        return self.plan.racks or (0,) * len(self.hosts)

    @property
    def places(self) -> tuple[int, ...]:
        """Tell where members stand as neighbours, by rank: those of one host beside each other."""
        if self.plan.places:
            return self.plan.places
        places = [0] * len(self.hosts)
        for place, rank in enumerate(sorted(range(len(self.hosts)), key=self.hosts.__getitem__)):
            places[rank] = place
        return tuple(places)

    def part(self, ranks: Sequence[int]) -> Layout:
        """Give the layout of some of the members."""
        cores = tuple(self.cores[rank] for rank in ranks) if self.cores else ()
        plan = self.plan
        if plan.places:
            racks = tuple(plan.racks[rank] for rank in ranks)
            plan = replace(plan, places=tuple(plan.places[rank] for rank in ranks), racks=racks)
        return Layout(tuple(self.hosts[rank] for rank in ranks), cores, plan, self.costs)


@dataclass(frozen=True)
class Choice:
    """An order, and why it was chosen.

    Attributes:
        name: see all_reduce.ORDERS; "hierarchical" for merging in hosts first, or in racks.
        why: for a person to read.
        inner: how pieces are merged over hosts or racks, if they are merged in these first.
        by_rack: it is racks that are merged in first.
        chunks: parts that are under way side by side.
    """

    name: str
    why: str
    inner: Choice | None = None
    chunks: int = 1
    by_rack: bool = False


@dataclass(frozen=True)
class _Work:
    """What an order asks of members and their hosts.

    Attributes:
        rounds: messages that wait for each other.
        busiest, total: messages of the member that has most, and of all.
        crossing: bytes through the link of the host that has most, one after the other.
        pair: bytes from one host to another, of the two that have most.
        merged: bytes that the busiest member merges and copies, in bytes copied.
        all_merged: those of all.
    """

    rounds: float
    busiest: float
    total: float
    crossing: float
    merged: float
    all_merged: float
    pair: float = 0.0


@lru_cache(1024)
def choose(nbytes: int, layout: Layout, hint: str = "auto") -> Choice:
    """Choose the order for an array of so many bytes.

    Args:
        hint: the name of an order, to have that one; anything else leaves it open.
    """
    size = len(layout.hosts)
    hosts = len(set(layout.hosts))
    if size == 1:
        return Choice("gossip", "there is one member")
    if hint == "hierarchical" and (hosts > 1 or _has_racks(layout)):
        return _hierarchical(nbytes, layout, "asked for")
    if hint in _WORK:
        return Choice(hint, "asked for", chunks=_chunks(hint, nbytes, hosts))
    found = {name: seconds(name, nbytes, layout) for name in _WORK}
    if 1 < hosts < size or _has_racks(layout):
        found["hierarchical"] = _hierarchical_seconds(nbytes, layout)
    best, *rest = sorted(found, key=lambda name: (found[name], name))
    why = f"{size} members on {hosts} hosts, {nbytes} bytes: {_text(found[best])} estimated; " + ", ".join(
        f"{name} {_text(found[name])}" for name in rest
    )
    if best == "hierarchical":
        return _hierarchical(nbytes, layout, why)
    return Choice(best, why, chunks=_chunks(best, nbytes, hosts))


def choose_coded(layout: Layout) -> Choice:
    """Choose the order for an array that is encoded between hosts, of which there are several."""
    why = "encoded between hosts"
    pieces = Choice("pieces", why)
    is_one_each = _by_rack(layout)
    return pieces if is_one_each else Choice("hierarchical", why, pieces)


def _text(found: float) -> str:
    return f"{found * 1e3:.3g} ms"


def _chunks(name: str, nbytes: int, hosts: int) -> int:
    # One part's merging hides behind another's way only where these are different machines' work.
    if hosts == 1 or name in ("gossip", "star", "tree"):
        return 1
    return max(min(nbytes // CHUNK_BYTES, MOST_CHUNKS), 1)


def _has_racks(layout: Layout) -> bool:
    """Tell whether there are racks to merge in first: members of one host are in one rack."""
    return 1 < len(set(layout.racks)) < len(layout.hosts)


def _by_rack(layout: Layout) -> bool:
    return len(set(layout.hosts)) == len(layout.hosts)


def _hierarchical(nbytes: int, layout: Layout, why: str) -> Choice:
    by_rack = _by_rack(layout)
    across, piece = _across(nbytes, layout)
    # Where hosts are merged in, racks may be next.
    inner = choose(piece, across, "hierarchical" if not by_rack and _has_racks(across) else "auto")
    over = "racks" if by_rack else "hosts"
    within = Choice(inner.name, inner.why, inner.inner, by_rack=inner.by_rack)
    return Choice("hierarchical", f"{why}; over {over} {inner.name}", within, by_rack=by_rack)


def _across(nbytes: int, layout: Layout) -> tuple[Layout, int]:
    """Lay out one member of each host, or of each rack, which merge a piece; and how long that is."""
    of = layout.racks if _by_rack(layout) else layout.hosts
    at = Counter(of)
    return layout.part([of.index(each) for each in at]), nbytes // min(at.values())


def _hierarchical_seconds(nbytes: int, layout: Layout) -> float:
    by_rack = _by_rack(layout)
    costs, at = layout.costs, Counter(layout.racks if by_rack else layout.hosts)
    across, piece = _across(nbytes, layout)
    own = min(at.values())
    most = max(at.values())
    cores = min(layout.cores, default=1)
    # All pieces go over hosts at a time, and share the hosts' links and processors; those of racks their links.
    if by_rack:
        share = (most - 1) / own * nbytes
        inside = _Work(2, 2 * (most - 1), 2 * (most - 1), 2 * share, _BOTH * share, _BOTH * share, 2 / own * nbytes)
        over = min(seconds(name, piece, across, own, over_racks=True) for name in _WORK)
        return _on_host(inside, costs, costs.between_s, 1, cores) + _on_links(inside, layout) + over
    inside = _Work(
        2, 2 * (most - 1), 2 * own * (most - 1), 0, _BOTH * nbytes * (most - 1) / own, _BOTH * nbytes * (most - 1)
    )
    if _has_racks(across):
        over = _hierarchical_seconds(piece * own, across)
    else:
        over = min(seconds(name, piece, across, own) for name in _WORK)
    return _on_host(inside, costs, costs.inside_s, most, cores) + over


def seconds(name: str, nbytes: int, layout: Layout, at_once: int = 1, *, over_racks: bool = False) -> float:
    """Estimate how long an order takes.

    Args:
        at_once: so many such merges share the hosts' links, and processors.
        over_racks: they share the racks' links only: each is of another host.
    """
    costs = layout.costs
    at = Counter(layout.hosts)
    size, most = len(layout.hosts), max(at.values())
    work = _WORK[name](size, float(nbytes), most, len(at))
    cores = min(layout.cores, default=1)
    latency = costs.inside_s if len(at) == 1 else costs.between_s
    share = most if over_racks else most * at_once
    found = _on_host(
        _Work(
            work.rounds,
            work.busiest,
            work.total * share / size,
            0,
            work.merged,
            work.all_merged * share / size,
        ),
        costs,
        latency,
        share,
        cores,
    )
    if len(at) == 1:
        return found
    links = 1 if over_racks else at_once
    carried = replace(work, crossing=links * work.crossing, pair=links * work.pair)
    slowest = layout.plan.along if name == "ring" else layout.plan.slowest
    return found + max(_on_links(carried, layout, slowest), _between_racks(name, nbytes, layout) * at_once)


def _on_links(work: _Work, layout: Layout, slowest: float = 0.0) -> float:
    """Give how long the bytes of an order are on their way: through a host's link, and the slowest way of two hosts."""
    usual = layout.plan.bytes_s or layout.costs.between_bytes_s
    return max(work.crossing / usual, work.pair / (slowest or layout.plan.slowest or usual))


def _between_racks(name: str, nbytes: int, layout: Layout) -> float:
    """Give how long what goes between racks is on its way: all of a rack's hosts share one link to the others."""
    racks = Counter(layout.racks)
    if len(racks) == 1:
        return 0.0
    work = _WORK[name](len(layout.hosts), float(nbytes), max(racks.values()), len(racks))
    return work.crossing / (layout.plan.between or layout.plan.bytes_s or layout.costs.between_bytes_s)


def _on_host(work: _Work, costs: Costs, latency: float, members: int, cores: int) -> float:
    """Add up rounds, messages and merging of a host: as many members at a time as it has processors.

    Args:
        work: of the host's members: `total` and `all_merged` are theirs.
    """
    # Measured: two processors do 1.4 times as much, in messages and in merging: they share memory and wake each other.
    able = math.sqrt(min(cores, members))
    messages = max(work.busiest, work.total / able) * costs.message_s
    merging = max(work.merged, work.all_merged / able) / costs.copy_bytes_s
    return work.rounds * latency + messages + merging


def _gossip(n: int, b: float, most: int, hosts: int) -> _Work:
    merged = _MERGED * (n - 1) * b
    return _Work(1, n - 1, n * (n - 1), most * (n - most) * b, merged, n * merged, most * b)


def _merging(n: int, hosts: int) -> float:
    """Give what merging n arrays at once takes: within a host each is read once, and the result written once."""
    return (n + 1) / 2 if hosts == 1 else _MERGED * (n - 1)


def _star(n: int, b: float, most: int, hosts: int) -> _Work:
    # One merges, and then all others copy: at least two at a time.
    merged = _merging(n, hosts) * b
    # The way there and the way back do not overlap.
    crossing = 2 * (n - most) * b
    return _Work(2, 2 * (n - 1), 2 * (n - 1), crossing, merged + (n - 1) / 1.4 * b, merged + (n - 1) * b, 2 * most * b)


def _tree(n: int, b: float, most: int, hosts: int) -> _Work:
    rounds = math.ceil(math.log2(n))
    crossing = 2 * math.ceil(math.log2(hosts)) * b
    # The last ones merge alone.
    return _Work(2 * rounds, 2 * rounds, 2 * (n - 1), crossing, _BOTH * rounds * b, _BOTH * n * b, 2 * b)


def _pieces(n: int, b: float, most: int, hosts: int) -> _Work:
    share = (_merging(n, hosts) + n - 1) / n * b
    return _Work(2, 2 * (n - 1), 2 * n * (n - 1), 2 * most * (n - most) / n * b, share, n * share, 2 * most / n * b)


def _ring(n: int, b: float, most: int, hosts: int) -> _Work:
    share = (n - 1) / n * b
    return _Work(2 * (n - 1), 2 * (n - 1), 2 * n * (n - 1), 2 * share, _BOTH * share, _BOTH * n * share, 2 * share)


def _halving(n: int, b: float, most: int, hosts: int) -> _Work:
    power = 1 << (n.bit_length() - 1)
    folded = n - power
    rounds = 2 * int(math.log2(power)) + (2 if folded else 0)
    share = (power - 1) / power * b
    total = 2 * power * math.log2(power) + 2 * folded
    sent, merged = (2 * share + b, _BOTH * (share + b)) if folded else (2 * share, _BOTH * share)
    return _Work(rounds, rounds, total, most * sent, merged, _BOTH * (power * share + folded * b), most * b)


_WORK: dict[str, Callable[[int, float, int, int], _Work]] = {
    "gossip": _gossip,
    "star": _star,
    "tree": _tree,
    "pieces": _pieces,
    "ring": _ring,
    "halving": _halving,
}
