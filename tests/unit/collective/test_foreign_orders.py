"""The orders in which TensorFlow's servers compute, with members that run in any order, some of which fetch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.collective import foreign_orders
from dtfctl.runtime.collective.algorithms import Algorithm, Array
from dtfctl.runtime.collective.foreign_orders import TAKEN
from dtfctl.runtime.collective.merging import final_of


class Seat:
    """A member's view of the group."""

    def __init__(self, sent: dict[str, Array], rank: int, tasks: Sequence[str], fetching: set[int]) -> None:
        self.rank, self.size, self.tasks = rank, len(tasks), tasks
        self.asked: dict[str, tuple[int, Any]] = {}
        self._sent, self._fetching = sent, fetching

    def send(self, to: int, tag: str, value: Array) -> None:
        assert to != self.rank and tag not in self._sent, "no two pieces of a computation have one name"
        self._sent[tag] = value

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.full(shape, 99, dtype)

    def fetch(self, rank: int, tag: str, count: int, dtype: Any) -> None:
        self.asked[tag] = count, dtype

    def fetches(self, rank: int) -> bool:
        return rank in self._fetching


def run(tasks: Sequence[str], start: Callable[[Seat], Algorithm], order: random.Random) -> list[Array]:
    """Run all members, one step of any of them at a time; their results."""
    sent: dict[str, Array] = {}
    taken: set[str] = set()
    fetching = {rank for rank in range(len(tasks)) if order.random() < 0.5}
    seats = [Seat(sent, rank, tasks, fetching) for rank in range(len(tasks))]
    going = {seat.rank: start(seat) for seat in seats}
    wanted: dict[int, str | None] = dict.fromkeys(going)
    results: dict[int, Array] = {}

    def is_there(tag: str | None) -> bool:
        return tag is None or (tag.removesuffix(TAKEN) in taken if tag.endswith(TAKEN) else tag in sent)

    while going:
        able = [rank for rank in going if is_there(wanted[rank])]
        assert able, f"all wait for each other: {wanted}"
        rank = order.choice(able)
        tag = wanted[rank]
        value: Any = None
        if tag is not None and not tag.endswith(TAKEN):
            value = sent[tag].copy()
            taken.add(tag)
            assert seats[rank].asked.pop(tag) == (value.size, value.dtype), "what is yielded for was asked for before"
        try:
            wanted[rank] = going[rank].send(value)[1]
        except StopIteration as e:
            results[rank] = e.value
            del going[rank]
    assert taken == set(sent), "something was sent that nobody takes"
    assert not any(seat.asked for seat in seats), "something was asked for that is never looked at"
    return [results[rank] for rank in range(len(tasks))]


groups = st.lists(st.integers(1, 3), min_size=2, max_size=5).map(
    lambda devices: [f"task:{task}" for task, count in enumerate(devices) for _ in range(count)]
)


@given(
    tasks=groups,
    shape=st.lists(st.integers(0, 40), min_size=1, max_size=2).map(tuple),
    offsets=st.sampled_from([(), (0,), (0, 1), (0, -1, 2)]),
    most=st.sampled_from([-1, 1, 2]),
    final=st.sampled_from(["Id", "Div"]),
    seed=st.integers(0, 1 << 30),
)
@settings(max_examples=100, deadline=None)
def test_reduce(
    tasks: list[str], shape: tuple[int, ...], offsets: tuple[int, ...], most: int, final: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.integers(-9, 9, shape).astype(np.float64) for _ in tasks]
    before = [value.copy() for value in values]
    results = run(
        tasks,
        lambda seat: foreign_orders.ring_reduce(
            seat, values[seat.rank], np.add, final_of(final, len(tasks)), offsets, most
        ),
        random.Random(seed),
    )
    wanted = sum(before) / (len(tasks) if final == "Div" else 1)
    for value, old, result in zip(values, before, results):
        np.testing.assert_array_equal(value, old)
        np.testing.assert_allclose(result, wanted, rtol=1e-12)
        assert result.tobytes() == results[0].tobytes()


@given(tasks=groups, rows=st.integers(0, 3), seed=st.integers(0, 1 << 30))
@settings(max_examples=50, deadline=None)
def test_gather_and_all_to_all(tasks: list[str], rows: int, seed: int) -> None:
    order = random.Random(seed)
    values = [np.arange(rows * 2.0).reshape(rows, 2) + 100 * rank for rank in range(len(tasks))]
    for got in run(tasks, lambda seat: foreign_orders.ring_gather(seat, values[seat.rank]), order):
        np.testing.assert_array_equal(got, np.concatenate(values))
    if len(tasks) > 9:
        # TensorFlow's own names for these pieces are not unique then.
        return
    wide = [np.arange(len(tasks) * 3.0).reshape(len(tasks), 3) + 100 * rank for rank in range(len(tasks))]
    for rank, got in enumerate(run(tasks, lambda seat: foreign_orders.all_to_all(seat, wide[seat.rank]), order)):
        np.testing.assert_array_equal(got, [value[rank] for value in wide])


@given(tasks=groups, source=st.integers(0, 14), seed=st.integers(0, 1 << 30))
@settings(max_examples=100, deadline=None)
def test_broadcast(tasks: list[str], source: int, seed: int) -> None:
    source %= len(tasks)
    value = np.arange(6.0).reshape(2, 3)
    results = run(
        tasks,
        lambda seat: foreign_orders.tree_broadcast(
            seat, source, value if seat.rank == source else None, value.shape, value.dtype
        ),
        random.Random(seed),
    )
    for result in results:
        np.testing.assert_array_equal(result, value)
