"""What a move of hosts is said to change is what adding up again finds, and no other move of its kind is better."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.collective.ring_search import Cost, Ring


def counted(order: Sequence[int], racks: dict[int, int], slow: dict[tuple[int, int], float]) -> Cost:
    ways = list(zip(order, [*order[1:], *order[:1]]))
    times = [1 / slow[way] if way in slow else 0.0 for way in ways]
    return Cost(max(times), sum(racks[a] != racks[b] for a, b in ways), sum(times))


def moves(order: list[int], at: int) -> list[list[list[int]]]:
    """List all orders that each kind of move makes."""
    found = []
    for which in (at, (at + 1) % len(order)):
        rest = order[:which] + order[which + 1 :]
        found.append([rest[:to] + [order[which]] + rest[to:] for to in range(len(rest))])
    turned = []
    for other in range(1, len(order) + 1):
        if other != at + 1:
            low, high = sorted((at + 1, other))
            turned.append(order[:low] + order[low:high][::-1] + order[high:])
    return [*found, turned]


@given(count=st.integers(3, 12), bad=st.floats(0.05, 1), named=st.integers(1, 3), seed=st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_a_moves_cost_is_that_of_the_order_it_makes(count: int, bad: float, named: int, seed: int) -> None:
    rng = random.Random(seed)
    hosts = rng.sample(range(100), count)
    racks = {host: rng.randrange(named) for host in hosts}
    slow = {(a, b): rng.uniform(1, 9) for a in hosts for b in hosts if a != b and rng.random() < bad}
    ring = Ring(hosts, racks, slow)
    order = rng.sample(range(count), count)
    assert ring.cost([hosts[i] for i in order]) == pytest.approx(counted([hosts[i] for i in order], racks, slow))
    for at in range(count):
        for (cost, (make, place)), others in zip(ring._moves(np.array(order), at), moves(order, at), strict=True):
            made = [hosts[i] for i in make(place)]
            assert sorted(made) == sorted(hosts)
            assert tuple(cost) == pytest.approx(tuple(counted(made, racks, slow)), abs=1e-9)
            best = min(counted([hosts[i] for i in other], racks, slow)[:2] for other in others)
            assert cost[:2] == pytest.approx(best)


def test_hundreds_of_hosts_with_many_slow_ways_find_a_way_round() -> None:
    rng = random.Random(7)
    hosts = range(200)
    slow = {(a, b): 5e6 for a in hosts for b in hosts if a != b and rng.random() < 0.2}
    ring = Ring(hosts, dict.fromkeys(hosts, 0), slow)
    found = ring.best()
    assert sorted(found) == list(hosts) and not ring.cost(found).slow
