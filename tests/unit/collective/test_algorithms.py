"""What members of a group compute together, with members that run in any order and no sockets between them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.collective import algorithms
from dtfctl.runtime.collective.algorithms import Algorithm, Array
from dtfctl.runtime.collective.all_reduce import ORDERS, all_reduce
from dtfctl.runtime.collective.choice import Layout, choose
from dtfctl.runtime.collective.merging import MERGES, final_of
from dtfctl.runtime.collective.topology import UNKNOWN, Plan


class Mail:
    """What members have sent each other and nobody has taken."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int, str], list[Array]] = {}
        self.bytes_from: dict[int, int] = {}
        self.sent: list[tuple[int, int, int]] = []


class Seat:
    """A member's view of the group."""

    def __init__(self, mail: Mail, rank: int, hosts: Sequence[int], layout: Layout | None = None) -> None:
        self.mail, self.rank, self.size, self.hosts = mail, rank, len(hosts), hosts
        layout = layout or Layout(tuple(hosts))
        self.racks, self.places = layout.racks, layout.places

    def send(self, to: int, tag: str, value: Array) -> None:
        assert to != self.rank
        # Copied only when it is taken: who changes what is on its way is found out.
        self.mail.held.setdefault((self.rank, to, tag), []).append(value)
        self.mail.sent.append((self.rank, to, value.nbytes))
        self.mail.bytes_from[self.rank] = self.mail.bytes_from.get(self.rank, 0) + value.nbytes

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.full(shape, 99, dtype)


def run(
    size: int,
    start: Callable[[Seat], Algorithm],
    order: random.Random,
    hosts: Sequence[int] = (),
    layout: Layout | None = None,
) -> tuple[list[Array], Mail]:
    """Run all members, one step of any of them at a time; their results."""
    mail = Mail()
    going = {rank: start(Seat(mail, rank, hosts or [0] * size, layout)) for rank in range(size)}
    wanted: dict[int, tuple[int, str] | None] = dict.fromkeys(going)
    results: dict[int, Array] = {}
    while going:
        able = [r for r in going if wanted[r] is None or mail.held.get((wanted[r][0], r, wanted[r][1]))]  # type: ignore[index]
        assert able, f"all wait for each other: {wanted}"
        rank = order.choice(able)
        asked = wanted[rank]
        value = None if asked is None else mail.held[asked[0], rank, asked[1]].pop(0)
        try:
            wanted[rank] = going[rank].send(value)  # type: ignore[arg-type]
        except StopIteration as e:
            results[rank] = e.value
            del going[rank]
    assert not any(mail.held.values()), "something was sent that nobody takes"
    return [results[rank] for rank in range(size)], mail


shapes = st.lists(st.integers(0, 7), max_size=3).map(tuple)


NAMES = ["auto", *ORDERS, "hierarchical"]
layouts = st.lists(st.integers(0, 3), min_size=1, max_size=11)
"""The host of each member."""


def reduced(
    values: list[Array],
    hosts: list[int],
    hint: str,
    order: random.Random,
    merge: str = "Add",
    final: str = "Id",
    chunks: int = 1,
    plan: Plan = UNKNOWN,
) -> tuple[list[Array], Mail]:
    size = len(values)
    layout = Layout(tuple(hosts), (2,) * size, plan)
    choice = choose(values[0].nbytes, layout, hint)
    return run(
        size,
        lambda seat: all_reduce(
            seat, values[seat.rank], MERGES[merge], final_of(final, size), replace(choice, chunks=chunks)
        ),
        order,
        hosts,
        layout,
    )


@given(
    hosts=layouts,
    shape=shapes,
    large=st.booleans(),
    merge=st.sampled_from(sorted(MERGES)),
    final=st.sampled_from(["Id", "Div"]),
    hint=st.sampled_from(NAMES),
    chunks=st.integers(1, 3),
    dtype=st.sampled_from([np.float32, np.int32, np.float64, np.float16, np.int64]),
    seed=st.integers(0, 1 << 30),
)
@settings(max_examples=200, deadline=None)
def test_all_members_get_the_same_merged_array(
    hosts: list[int],
    shape: tuple[int, ...],
    large: bool,
    merge: str,
    final: str,
    hint: str,
    chunks: int,
    dtype: Any,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    size = len(hosts)
    if large:
        shape = (9001, *shape[1:2])
    values = [rng.integers(-2, 3, shape).astype(dtype) for _ in range(size)]
    before = [v.copy() for v in values]
    results, _ = reduced(values, hosts, hint, random.Random(seed), merge, final, chunks)
    wanted = values[0]
    for value in values[1:]:
        wanted = MERGES[merge](wanted, value, out=np.empty_like(wanted))
    if final == "Div":
        whole = np.issubdtype(dtype, np.integer)
        wanted = np.trunc(wanted / size).astype(dtype) if whole else wanted / np.asarray(size, dtype)
    for value, old in zip(values, before):
        np.testing.assert_array_equal(value, old)
    for result in results:
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(result, wanted)


@given(hosts=layouts, hint=st.sampled_from(NAMES), chunks=st.integers(1, 3), seed=st.integers(0, 1 << 30))
@settings(max_examples=100, deadline=None)
def test_all_members_get_the_same_bits(hosts: list[int], hint: str, chunks: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal(2000).astype(np.float32) for _ in hosts]
    results, _ = reduced(values, hosts, hint, random.Random(seed), final="Div", chunks=chunks)
    assert len({result.tobytes() for result in results}) == 1
    np.testing.assert_allclose(results[0], np.mean(values, axis=0, dtype=np.float64), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hint", ["pieces", "ring", "halving"])
@pytest.mark.parametrize("size", [4, 8])
def test_nobody_sends_more_than_twice_its_array(size: int, hint: str) -> None:
    values = [np.ones(100_000, np.float32) for _ in range(size)]
    _, mail = reduced(values, [0] * size, hint, random.Random(1))
    assert max(mail.bytes_from.values()) <= 2 * (size - 1) / size * values[0].nbytes + 64 * 2 * size


@pytest.mark.parametrize("hint", ["star", "tree"])
@pytest.mark.parametrize("size", [3, 8, 11])
def test_short_arrays_take_two_messages_a_member(size: int, hint: str) -> None:
    _, mail = reduced([np.ones(1, np.float32)] * size, [0] * size, hint, random.Random(1))
    assert len(mail.sent) == 2 * (size - 1)


@given(
    racks=st.lists(st.integers(0, 2), min_size=2, max_size=6),
    members=st.integers(1, 3),
    hint=st.sampled_from(NAMES),
    seed=st.integers(0, 1 << 30),
)
@settings(max_examples=60, deadline=None)
def test_racks_and_places_change_the_way_and_not_the_sum(racks: list[int], members: int, hint: str, seed: int) -> None:
    hosts = [host for host in range(len(racks)) for _ in range(members)]
    places = list(range(len(hosts)))
    random.Random(seed).shuffle(places)
    plan = Plan(tuple(places), tuple(racks[host] for host in hosts), 1e9, 1e9, 1e9, 1e8)
    values = [np.arange(500, dtype=np.int64) * (rank + 1) for rank in range(len(hosts))]
    results, _ = reduced(values, hosts, hint, random.Random(seed), plan=plan)
    assert all((result == sum(values)).all() for result in results)


def test_between_racks_goes_least_where_racks_merge_first() -> None:
    """Of two racks with 4 hosts each: a rack sends the other one as much as one member has."""
    racks = [rank % 2 for rank in range(8)]
    plan = Plan(tuple(range(8)), tuple(racks), 1e9, 1e9, 1e9, 1e8)
    value = np.ones(4096, np.float32)

    def between(hint: str) -> int:
        _, mail = reduced([value] * 8, list(range(8)), hint, random.Random(3), plan=plan)
        return max(sum(n for source, to, n in mail.sent if racks[source] == r != racks[to]) for r in (0, 1))

    assert between("hierarchical") == value.nbytes < min(between("ring"), between("pieces"))


def test_between_hosts_goes_least_where_hosts_merge_first() -> None:
    """Of 3 hosts with 4 members each: none sends more than what it has merged to the two others."""
    hosts = [rank // 4 for rank in range(12)]
    value = np.ones(120_000, np.float32)

    def crossing(hint: str) -> int:
        _, mail = reduced([value] * 12, hosts, hint, random.Random(3))
        return max(sum(n for source, to, n in mail.sent if hosts[source] == host != hosts[to]) for host in range(3))

    assert crossing("hierarchical") <= 2 * value.nbytes < crossing("pieces") / 2


@given(size=st.integers(1, 9), rows=st.integers(0, 4), seed=st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_parts_go_where_they_belong(size: int, rows: int, seed: int) -> None:
    order = random.Random(seed)
    values = [np.arange(size * rows * 3).reshape(size * rows, 3) + 1000 * rank for rank in range(size)]
    scattered, _ = run(
        size, lambda seat: algorithms.reduce_scatter(seat, values[seat.rank], np.add, final_of("Id", size)), order
    )
    total = sum(values) if size > 1 else values[0]
    for rank, part in enumerate(scattered):
        np.testing.assert_array_equal(part, np.asarray(total)[rank * rows : (rank + 1) * rows])
    swapped, _ = run(size, lambda seat: algorithms.all_to_all(seat, values[seat.rank]), order)
    for rank, got in enumerate(swapped):
        np.testing.assert_array_equal(got, np.concatenate([v[rank * rows : (rank + 1) * rows] for v in values]))
    uneven = [v[: rank + 1] for rank, v in enumerate(values)]
    gathered, _ = run(size, lambda seat: algorithms.all_gather(seat, uneven[seat.rank]), order)
    for got in gathered:
        np.testing.assert_array_equal(got, np.concatenate(uneven))


@given(size=st.integers(1, 17), source=st.integers(0, 16), seed=st.integers(0, 1 << 30))
@settings(max_examples=60, deadline=None)
def test_everybody_gets_what_the_source_has_in_few_rounds(size: int, source: int, seed: int) -> None:
    source %= size
    value = np.arange(6.0).reshape(2, 3)
    results, mail = run(
        size,
        lambda seat: algorithms.broadcast(seat, source, value if seat.rank == source else None, value.shape),
        random.Random(seed),
    )
    for result in results:
        np.testing.assert_array_equal(result, value)
    assert sum(mail.bytes_from.values()) == (size - 1) * value.nbytes
    assert max(mail.bytes_from.values(), default=0) <= max(size - 1, 0).bit_length() * value.nbytes


@pytest.mark.parametrize("elements", [3, 30_000])
def test_members_with_other_shapes_are_told(elements: int) -> None:
    values = [np.ones(elements + rank, np.float32) for rank in range(3)]
    for hint in NAMES:
        with pytest.raises(ValueError, match="Shape mismatch"):
            reduced(values, [0, 1, 1], hint, random.Random(2))
    with pytest.raises(ValueError, match="Shape mismatch"):
        run(3, lambda seat: algorithms.all_gather(seat, values[seat.rank], is_even=True), random.Random(2))
