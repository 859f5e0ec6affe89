"""The ways between the hosts of a group: which are slow, what is a rack, and in which order members are neighbours.

Rates are measured by transfers that pass anyhow, or by who was asked to measure. They scatter, so only what is far
below the usual counts as slow, and above `ENOUGH_BYTES_S` it is programs that are measured and not the network.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SLOW_SHARE = 0.4
"""A way that carries less than this of the usual is slow."""
ENOUGH_BYTES_S = 250e6
BETTER = 1.5
"""How much more the slowest way of an order has to carry before members change to it."""
_TRY_ALL = 7
"""Orders of so many hosts are all looked at; of more, those that one move makes of another."""
_MOST_MOVED = 64

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
        costs = _Costs(racks, inside, usual)
        now = self._order_of(before, hosts) if before is not None else None
        best = _best(sorted(hosts, key=racks.__getitem__), costs)
        if now is not None and not costs.of(best).is_better_than(costs.of(now)):
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


@dataclass(frozen=True)
class _Cost:
    """What an order of hosts costs.

    Attributes:
        slowest: what its slowest way carries, of those within racks.
        crossings: how often it goes from one rack to another.
        slow: time that a byte takes on all of its slow ways.
    """

    slowest: float
    crossings: int
    slow: float

    @property
    def key(self) -> tuple[float, int, float]:
        return -self.slowest, self.crossings, self.slow

    def is_better_than(self, other: _Cost) -> bool:
        return self.slowest > BETTER * other.slowest or (
            self.slowest >= other.slowest and (self.crossings, self.slow) < (other.crossings, other.slow)
        )


@dataclass(frozen=True)
class _Costs:
    racks: Mapping[int, int]
    slow: Ways
    usual: float

    def of(self, order: Sequence[int]) -> _Cost:
        slowest, crossings, time = self.usual, 0, 0.0
        for way in _around(order):
            crossings += self.racks[way[0]] != self.racks[way[1]]
            rate = self.slow.get(way)
            if rate is not None:
                slowest = min(slowest, rate)
                time += 1 / rate
        return _Cost(slowest, crossings, time)


def _around(order: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(order, [*order[1:], *order[:1]]))


def _best(order: list[int], costs: _Costs) -> list[int]:
    """Find a good order, from one in which racks stand together."""
    found = costs.of(order)
    if not found.slow:
        return order
    if len(order) <= _TRY_ALL:
        first, *others = order
        return min(([first, *rest] for rest in itertools.permutations(others)), key=lambda each: costs.of(each).key)
    for _ in range(_MOST_MOVED):
        # The slowest way is what counts: move the host at either end of it, or turn what stands between two ways round.
        bad = [i for i, way in enumerate(_around(order)) if way in costs.slow]
        tries = [moved for at in bad for moved in _moves(order, at)]
        best = min(tries, key=lambda each: costs.of(each).key, default=order)
        if costs.of(best).key >= found.key:
            break
        order, found = best, costs.of(best)
    return order


def _moves(order: list[int], at: int) -> Iterable[list[int]]:
    for which in (at, (at + 1) % len(order)):
        rest = order[:which] + order[which + 1 :]
        for to in range(len(order)):
            yield rest[:to] + [order[which]] + rest[to:]
    for other in range(len(order)):
        low, high = sorted((at + 1, other + 1))
        yield order[:low] + order[low:high][::-1] + order[high:]
