"""The ways between the hosts of a group: which are slow, what is a rack, and in which order members are neighbours.

Rates are measured by transfers that pass anyhow, or by who was asked to measure. They scatter, so only what is far
below the usual counts as slow, and above `ENOUGH_BYTES_S` it is programs that are measured and not the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dtfctl.runtime.collective.ring_search import Cost, Ring

SLOW_SHARE = 0.4
"""A way that carries less than this of the usual is slow."""
ENOUGH_BYTES_S = 250e6
BETTER = 1.5
"""How much more the slowest way of an order has to carry before members change to it."""

Ways = Mapping[tuple[int, int], float]
"""Bytes a second from one host to another, where that is known."""


@dataclass(frozen=True)
class Plan:
    """How members stand to each other. All members have the same.

    Attributes:
        places: by rank: its place among neighbours, from 0.
        racks: by rank: a number that hosts have in common between which no way is slow; all 0 where there is one.
        bytes_s: what a usual way between two hosts carries; 0 where nothing was measured. So for the others:
        slowest: the slowest way within a rack.
        along: the slowest from one host to the next in their places, within a rack.
        between: the slowest from one rack to another.
    """

    places: tuple[int, ...] = ()
    racks: tuple[int, ...] = ()
    bytes_s: float = 0.0
    slowest: float = 0.0
    along: float = 0.0
    between: float = 0.0

    @property
    def order(self) -> tuple[int, ...]:
        """Give the ranks in their places."""
        return tuple(sorted(range(len(self.places)), key=self.places.__getitem__))


UNKNOWN = Plan()
"""Holds where nothing was measured."""


@dataclass
class Map:
    """Hosts of a group, and what is known of the ways between them.

    Args:
        hosts: by rank.
        named: racks of hosts as somebody has named them.
    """

    hosts: Sequence[int]
    named: Mapping[int, int] = field(default_factory=dict)
    ways: dict[tuple[int, int], float] = field(default_factory=dict)

    def learn(self, source: int, rates: Iterable[tuple[int, float]]) -> None:
        """Take what a host says of the ways from it."""
        for target, rate in rates:
            if source != target and rate > 0:
                self.ways[source, target] = rate

    def plan(self, before: Plan | None = None) -> Plan:
        """Find the places of members: those of `before`, unless others are a good deal better."""
        hosts = list(dict.fromkeys(self.hosts))
        usual = max(self.ways.values(), default=0.0)
        # What programs can make use of differs on every way, and says nothing.
        able = min(usual, ENOUGH_BYTES_S)
        slow = {way: rate for way, rate in self.ways.items() if rate < SLOW_SHARE * able}
        racks = self._racks(hosts, slow)
        between = min((rate for (a, b), rate in self.ways.items() if racks[a] != racks[b]), default=0.0)
        inside = {way: rate for way, rate in slow.items() if racks[way[0]] == racks[way[1]]}
        ring = Ring(sorted(hosts, key=racks.__getitem__), racks, inside)
        now = self._order_of(before, hosts) if before is not None else None
        best = ring.best()
        if now is not None and not _is_better(ring.cost(best), ring.cost(now)):
            best = now
        place_of = {host: place for place, host in enumerate(best)}
        ranks = sorted(range(len(self.hosts)), key=lambda rank: (place_of[self.hosts[rank]], rank))
        places = [0] * len(ranks)
        for place, rank in enumerate(ranks):
            places[rank] = place
        return Plan(
            tuple(places),
            tuple(racks[host] for host in self.hosts) if len(set(racks.values())) > 1 else (0,) * len(ranks),
            usual,
            min(inside.values(), default=usual),
            min((inside[way] for way in _around(best) if way in inside), default=usual),
            between,
        )

    def _racks(self, hosts: Sequence[int], slow: Ways) -> dict[int, int]:
        """Number the hosts' racks as they are named, else by what is slow: a rack is what good ways hold together."""
        if any(self.named.get(host) for host in hosts):
            numbers: dict[int, int] = {}
            return {host: numbers.setdefault(self.named.get(host, 0), len(numbers)) for host in hosts}
        if not slow:
            return dict.fromkeys(hosts, 0)
        racks: dict[int, int] = {}
        for first in hosts:
            if first in racks:
                continue
            number = racks[first] = len(set(racks.values()))
            found = [first]
            while found:
                host = found.pop()
                for other in hosts:
                    if other not in racks and not ((host, other) in slow and (other, host) in slow):
                        racks[other] = number
                        found.append(other)
        return racks

    def _order_of(self, plan: Plan, hosts: Sequence[int]) -> list[int]:
        return list(dict.fromkeys(self.hosts[rank] for rank in plan.order)) if plan.places else list(hosts)


def _around(order: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(order, [*order[1:], *order[:1]]))


def _is_better(cost: Cost, than: Cost) -> bool:
    """Tell whether members are to change to an order: its slowest way carries much more, or as much and others do."""
    return cost.slowest * BETTER < than.slowest or (cost.slowest <= than.slowest and cost[1:] < than[1:])
