"""Which order suits an all-reduce, and why: from its size, who stands where, and what links carry.

The estimate follows Hockney's model (a message costs a latency, and its bytes at a rate), with what a message costs the
processors of a host: several members of one host share these, and its link to others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
        bytes_s: of the slowest link that was measured; 0 for none.
    """

    hosts: tuple[int, ...]
    cores: tuple[int, ...] = ()
    bytes_s: float = 0.0
    costs: Costs = Costs()

    def part(self, ranks: Sequence[int]) -> Layout:
        """Give the layout of some of the members."""
        cores = tuple(self.cores[rank] for rank in ranks) if self.cores else ()
        return Layout(tuple(self.hosts[rank] for rank in ranks), cores, self.bytes_s, self.costs)


@dataclass(frozen=True)
class Choice:
    """An order, and why it was chosen.

    Attributes:
        name: see all_reduce.ORDERS; "hierarchical" for merging in hosts first.
        why: for a person to read.
        inner: how pieces are merged over hosts, if they are merged in hosts first.
        chunks: parts that are under way side by side.
    """

    name: str
    why: str
    inner: Choice | None = None
    chunks: int = 1


@dataclass(frozen=True)
class _Work:
    """What an order asks of members and their hosts.

    Attributes:
        rounds: messages that wait for each other.
        busiest, total: messages of the member that has most, and of all.
        crossing: bytes through the link of the host that has most, in the busier direction.
        merged: bytes that the busiest member merges and copies, in bytes copied.
        all_merged: those of all.
    """

    rounds: float
    busiest: float
    total: float
    crossing: float
    merged: float
    all_merged: float


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
    if hint == "hierarchical" and hosts > 1:
        return _hierarchical(nbytes, layout, "asked for")
    if hint in _WORK:
        return Choice(hint, "asked for", chunks=_chunks(hint, nbytes, hosts))
    found = {name: seconds(name, nbytes, layout) for name in _WORK}
    if 1 < hosts < size:
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
    is_one_each = len(set(layout.hosts)) == len(layout.hosts)
    return pieces if is_one_each else Choice("hierarchical", why, pieces)


def _text(found: float) -> str:
    return f"{found * 1e3:.3g} ms"


def _chunks(name: str, nbytes: int, hosts: int) -> int:
    # One part's merging hides behind another's way only where these are different machines' work.
    if hosts == 1 or name in ("gossip", "star", "tree"):
        return 1
    return max(min(nbytes // CHUNK_BYTES, MOST_CHUNKS), 1)


def _hierarchical(nbytes: int, layout: Layout, why: str) -> Choice:
    across, piece = _across(nbytes, layout)
    inner = choose(piece, across)
    return Choice("hierarchical", f"{why}; over hosts {inner.name}", Choice(inner.name, inner.why, inner.inner))


def _across(nbytes: int, layout: Layout) -> tuple[Layout, int]:
    """Lay out one member of each host, which merge a piece; and how long that is."""
    at = Counter(layout.hosts)
    return layout.part([layout.hosts.index(host) for host in at]), nbytes // min(at.values())


def _hierarchical_seconds(nbytes: int, layout: Layout) -> float:
    costs, at = layout.costs, Counter(layout.hosts)
    across, piece = _across(nbytes, layout)
    own = min(at.values())
    most = max(at.values())
    cores = min(layout.cores, default=1)
    inside = _Work(
        2, 2 * (most - 1), 2 * own * (most - 1), 0, _BOTH * nbytes * (most - 1) / own, _BOTH * nbytes * (most - 1)
    )
    # All pieces go over hosts at a time, and share the hosts' links and processors.
    over = min(seconds(name, piece, across, own) for name in _WORK)
    return _on_host(inside, costs, costs.inside_s, most, cores) + over


def seconds(name: str, nbytes: int, layout: Layout, at_once: int = 1) -> float:
    """Estimate how long an order takes.

    Args:
        at_once: so many such merges share the hosts.
    """
    costs = layout.costs
    at = Counter(layout.hosts)
    size, most = len(layout.hosts), max(at.values())
    work = _WORK[name](size, float(nbytes), most, len(at))
    cores = min(layout.cores, default=1)
    latency = costs.inside_s if len(at) == 1 else costs.between_s
    share = most * at_once
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
    return found + (at_once * work.crossing / (layout.bytes_s or costs.between_bytes_s) if len(at) > 1 else 0.0)


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
    return _Work(1, n - 1, n * (n - 1), most * (n - most) * b, merged, n * merged)


def _merging(n: int, hosts: int) -> float:
    """Give what merging n arrays at once takes: within a host each is read once, and the result written once."""
    return (n + 1) / 2 if hosts == 1 else _MERGED * (n - 1)


def _star(n: int, b: float, most: int, hosts: int) -> _Work:
    # One merges, and then all others copy: at least two at a time.
    merged = _merging(n, hosts) * b
    return _Work(2, 2 * (n - 1), 2 * (n - 1), (n - most) * b, merged + (n - 1) / 1.4 * b, merged + (n - 1) * b)


def _tree(n: int, b: float, most: int, hosts: int) -> _Work:
    rounds = math.ceil(math.log2(n))
    crossing = math.ceil(math.log2(hosts)) * b
    # The last ones merge alone.
    return _Work(2 * rounds, 2 * rounds, 2 * (n - 1), crossing, _BOTH * rounds * b, _BOTH * n * b)


def _pieces(n: int, b: float, most: int, hosts: int) -> _Work:
    share = (_merging(n, hosts) + n - 1) / n * b
    return _Work(2, 2 * (n - 1), 2 * n * (n - 1), 2 * most * (n - most) / n * b, share, n * share)


def _ring(n: int, b: float, most: int, hosts: int) -> _Work:
    share = (n - 1) / n * b
    return _Work(2 * (n - 1), 2 * (n - 1), 2 * n * (n - 1), 2 * share, _BOTH * share, _BOTH * n * share)


def _halving(n: int, b: float, most: int, hosts: int) -> _Work:
    power = 1 << (n.bit_length() - 1)
    folded = n - power
    rounds = 2 * int(math.log2(power)) + (2 if folded else 0)
    share = (power - 1) / power * b
    total = 2 * power * math.log2(power) + 2 * folded
    sent, merged = (2 * share + b, _BOTH * (share + b)) if folded else (2 * share, _BOTH * share)
    return _Work(rounds, rounds, total, most * sent, merged, _BOTH * (power * share + folded * b))


_WORK: dict[str, Callable[[int, float, int, int], _Work]] = {
    "gossip": _gossip,
    "star": _star,
    "tree": _tree,
    "pieces": _pieces,
    "ring": _ring,
    "halving": _halving,
}
