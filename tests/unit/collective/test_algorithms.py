"""What members of a group compute together, with members that run in any order and no sockets between them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.collective import algorithms
from dtfctl.runtime.collective.algorithms import Algorithm, Array
from dtfctl.runtime.collective.merging import MERGES, final_of


class Mail:
    """What members have sent each other and nobody has taken."""

    def __init__(self) -> None:
        self.held: dict[tuple[int, int, str], list[Array]] = {}
        self.bytes_from: dict[int, int] = {}


class Seat:
    """A member's view of the group."""

    def __init__(self, mail: Mail, rank: int, size: int) -> None:
        self.mail, self.rank, self.size = mail, rank, size

    def send(self, to: int, tag: str, value: Array) -> None:
        assert to != self.rank
        # Copied only when it is taken: who changes what is on its way is found out.
        self.mail.held.setdefault((self.rank, to, tag), []).append(value)
        self.mail.bytes_from[self.rank] = self.mail.bytes_from.get(self.rank, 0) + value.nbytes

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return np.full(shape, 99, dtype)


def run(size: int, start: Callable[[Seat], Algorithm], order: random.Random) -> tuple[list[Array], Mail]:
    """Run all members, one step of any of them at a time; their results."""
    mail = Mail()
    going = {rank: start(Seat(mail, rank, size)) for rank in range(size)}
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


@given(
    size=st.integers(1, 11),
    shape=shapes,
    large=st.booleans(),
    merge=st.sampled_from(sorted(MERGES)),
    final=st.sampled_from(["Id", "Div"]),
    hint=st.sampled_from(["auto", "ring"]),
    dtype=st.sampled_from([np.float32, np.int32, np.float64]),
    seed=st.integers(0, 1 << 30),
)
@settings(max_examples=150, deadline=None)
def test_all_members_get_the_same_merged_array(
    size: int, shape: tuple[int, ...], large: bool, merge: str, final: str, hint: str, dtype: Any, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    if large:
        shape = (9001, *shape[1:2])
    values = [rng.integers(-9, 9, shape).astype(dtype) for _ in range(size)]
    before = [v.copy() for v in values]
    results, _ = run(
        size,
        lambda seat: algorithms.all_reduce(seat, values[seat.rank], MERGES[merge], final_of(final, size), hint),
        random.Random(seed),
    )
    wanted = values[0]
    for value in values[1:]:
        wanted = MERGES[merge](wanted, value, out=np.empty_like(wanted))
    if final == "Div":
        wanted = np.trunc(wanted / size).astype(dtype) if dtype is np.int32 else (wanted / size).astype(dtype)
    for value, old in zip(values, before):
        np.testing.assert_array_equal(value, old)
    for result in results:
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
        assert result.tobytes() == results[0].tobytes()


@pytest.mark.parametrize("hint", ["auto", "ring"])
@pytest.mark.parametrize("size", [3, 5, 12])
def test_nobody_sends_more_than_twice_its_array(size: int, hint: str) -> None:
    values = [np.ones(100_000, np.float32) for _ in range(size)]
    _, mail = run(
        size,
        lambda seat: algorithms.all_reduce(seat, values[seat.rank], np.add, final_of("Id", size), hint),
        random.Random(1),
    )
    assert max(mail.bytes_from.values()) <= 2 * (size - 1) / size * values[0].nbytes + 64 * 2 * size


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
    with pytest.raises(ValueError, match="Shape mismatch"):
        run(3, lambda seat: algorithms.all_reduce(seat, values[seat.rank], np.add, final_of("Id", 3)), random.Random(2))
    with pytest.raises(ValueError, match="Shape mismatch"):
        run(3, lambda seat: algorithms.all_gather(seat, values[seat.rank], is_even=True), random.Random(2))
