"""Who is whose neighbour, by what ways between hosts carry."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.collective.choice import Layout, choose
from dtfctl.runtime.collective.topology import Map, Plan

MB = 1e6


def ways(count: int, rate: float = 100 * MB) -> dict[tuple[int, int], float]:
    return {(a, b): rate for a in range(count) for b in range(count) if a != b}


def around(plan: Plan, hosts: list[int]) -> list[tuple[int, int]]:
    order = list(dict.fromkeys(hosts[rank] for rank in plan.order))
    return list(zip(order, [*order[1:], *order[:1]]))


def test_where_nothing_is_known_members_stand_by_host() -> None:
    plan = Map([3, 1, 3, 1]).plan()
    assert plan.order == (0, 2, 1, 3) and plan.racks == (0,) * 4 and plan.bytes_s == 0


def test_a_slow_way_is_not_gone_by() -> None:
    known = ways(4) | {(1, 2): 10 * MB}
    plan = Map(list(range(4)), ways=known).plan()
    assert (1, 2) not in around(plan, list(range(4)))
    assert (plan.slowest, plan.along, plan.bytes_s) == (10 * MB, 100 * MB, 100 * MB)
    assert set(plan.racks) == {0}, "one slow way makes no rack"


def test_places_stay_where_others_are_not_much_better() -> None:
    hosts = list(range(4))
    before = Map(hosts, ways=ways(4) | {(1, 2): 10 * MB}).plan()
    assert Map(hosts, ways=ways(4)).plan(before).places == before.places
    noisy = {way: rate * random.Random(4).uniform(0.6, 1.0) for way, rate in ways(4).items()}
    assert Map(hosts, ways=noisy).plan(before).places == before.places


def test_what_programs_cannot_use_is_not_slow() -> None:
    plan = Map(list(range(3)), ways=ways(3, 4e9) | {(0, 1): 0.5e9}).plan()
    assert plan.order == (0, 1, 2) and plan.slowest == 4e9


@pytest.mark.parametrize("named", [{0: 7, 1: 8, 2: 7, 3: 8}, {}])
def test_racks_are_named_or_found_and_stand_together(named: dict[int, int]) -> None:
    known = {(a, b): rate if a % 2 == b % 2 else 9 * MB for (a, b), rate in ways(4).items()}
    plan = Map(list(range(4)), named, known).plan()
    assert plan.racks == (0, 1, 0, 1)
    assert sum(a % 2 != b % 2 for a, b in around(plan, list(range(4)))) == 2
    assert plan.between == 9 * MB and plan.slowest == 100 * MB


def test_named_racks_need_no_measurement() -> None:
    plan = Map([0, 1, 2, 3], {0: 5, 1: 6, 2: 5, 3: 6}).plan()
    assert plan.order == (0, 2, 1, 3) and plan.racks == (0, 1, 0, 1)


@given(count=st.integers(8, 24), bad=st.integers(1, 5), seed=st.integers(0, 1 << 30))
@settings(max_examples=30, deadline=None)
def test_many_hosts_find_a_way_round(count: int, bad: int, seed: int) -> None:
    rng = random.Random(seed)
    slow = dict.fromkeys(rng.sample(sorted(ways(count)), bad), 5 * MB)
    plan = Map(list(range(count)), ways=ways(count) | slow).plan()
    assert sorted(plan.places) == list(range(count))
    assert not set(around(plan, list(range(count)))) & set(slow) and plan.along == 100 * MB


def test_two_racks_with_a_slow_way_between_merge_in_these_first() -> None:
    plan = Plan(tuple(range(8)), (0, 0, 0, 0, 1, 1, 1, 1), 1e9, 1e9, 1e9, 50e6)
    choice = choose(16 << 20, Layout(tuple(range(8)), (8,) * 8, plan))
    assert choice.name == "hierarchical" and choice.by_rack and choice.inner is not None


def test_members_of_hosts_in_racks_merge_in_both() -> None:
    hosts = tuple(rank // 2 for rank in range(16))
    plan = Plan(tuple(range(16)), tuple(host // 4 for host in hosts), 1e9, 1e9, 1e9, 50e6)
    choice = choose(64 << 20, Layout(hosts, (8,) * 16, plan))
    assert choice.name == "hierarchical" and not choice.by_rack
    assert choice.inner is not None and choice.inner.name == "hierarchical" and choice.inner.by_rack


def test_one_slow_way_is_gone_round_in_a_ring() -> None:
    plan = Map(list(range(4)), ways=ways(4) | {(1, 2): 5 * MB}).plan()
    assert choose(64 << 20, Layout(tuple(range(4)), (8,) * 4, plan)).name == "ring"
