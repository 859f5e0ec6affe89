"""Sums whose pieces are encoded between hosts: how near they come, and what becomes of what is left out."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.collective.algorithms import Array
from dtfctl.runtime.collective.all_reduce import all_reduce
from dtfctl.runtime.collective.choice import Layout, choose_coded
from dtfctl.runtime.collective.coded import Coding
from dtfctl.runtime.collective.merging import final_of
from dtfctl.runtime.compression import parse_codec
from tests.unit.collective.test_algorithms import Mail, run

NEAR = {"bfloat16": 2**-7, "float16": 2**-9, "int8": 1 / 60}
"""How far a sum may be off, of what is added up at most."""


def summed(
    values: list[Array], hosts: list[int], codec: str, owed: list[dict[str, Array]], order: random.Random
) -> tuple[list[Array], Mail]:
    choice = choose_coded(Layout(tuple(hosts), (2,) * len(hosts)))
    return run(
        len(values),
        lambda seat: all_reduce(
            seat,
            values[seat.rank],
            np.add,
            final_of("Id", len(values)),
            choice,
            Coding(parse_codec(codec), owed[seat.rank]),
        ),
        order,
        hosts,
    )


@given(
    hosts=st.lists(st.integers(0, 2), min_size=2, max_size=7).filter(lambda hosts: len(set(hosts)) > 1),
    codec=st.sampled_from(sorted(NEAR)),
    count=st.integers(0, 5000),
    seed=st.integers(0, 1 << 30),
)
@settings(max_examples=60, deadline=None)
def test_all_members_get_the_same_sum_and_it_is_near(hosts: list[int], codec: str, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal(count).astype(np.float32) for _ in hosts]
    results, _ = summed(values, hosts, codec, [{} for _ in hosts], random.Random(seed))
    assert len({result.tobytes() for result in results}) == 1
    most = float(np.sum([np.abs(value).max(initial=0) for value in values]))
    np.testing.assert_allclose(results[0], np.sum(values, axis=0), atol=2 * NEAR[codec] * most)


@pytest.mark.parametrize("hosts", [[0, 1, 2], [0, 0, 1, 1]])
def test_what_topk_leaves_out_comes_later(hosts: list[int]) -> None:
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(6000).astype(np.float32) for _ in hosts]
    owed: list[dict[str, Array]] = [{} for _ in hosts]
    total = np.zeros(6000)
    for step in range(1, 61):
        results, _ = summed(values, hosts, "topk:ratio=0.1", owed, random.Random(step))
        assert len({result.tobytes() for result in results}) == 1
        total += results[0]
    wanted = 60 * np.sum(values, axis=0, dtype=np.float64)
    # What is owed is a few steps' worth, however many there were.
    assert np.abs(total - wanted).max() < 30 * np.abs(wanted / 60).max()
    assert np.linalg.norm(total - wanted) < 0.2 * np.linalg.norm(wanted)


def test_fewer_bytes_go_between_hosts_and_all_of_them_within() -> None:
    hosts = [0, 0, 1, 1]
    values = [np.ones(40_000, np.float32)] * 4

    def crossing(codec: str) -> int:
        results, mail = summed(values, hosts, codec, [{} for _ in hosts], random.Random(2))
        assert codec.startswith("topk") or [float(result[7]) for result in results] == [4.0] * 4
        return sum(n for source, to, n in mail.sent if hosts[source] != hosts[to])

    assert crossing("bfloat16") == pytest.approx(2 * values[0].nbytes * 0.5, rel=0.01)
    assert crossing("int8") < 0.3 * 2 * values[0].nbytes
    assert crossing("topk:ratio=0.01") < 0.03 * 2 * values[0].nbytes
