"""Which order is chosen for an all-reduce, and what is said of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.collective.all_reduce import ORDERS
from dtfctl.runtime.collective.choice import CHUNK_BYTES, Layout, choose, seconds
from dtfctl.runtime.collective.topology import Plan

MB = 1 << 20


def apart(count: int, bytes_s: float = 0.0) -> Layout:
    """Members on a host each."""
    return Layout(tuple(range(count)), (8,) * count, Plan(bytes_s=bytes_s))


def together(count: int, cores: int = 2) -> Layout:
    return Layout((0,) * count, (cores,) * count)


@pytest.mark.parametrize("layout", [together(8), apart(8), together(3)])
def test_short_arrays_take_few_messages_and_long_ones_are_cut(layout: Layout) -> None:
    assert choose(4, layout).name in ("gossip", "star", "tree")
    assert choose(100 * MB, layout).name in ("pieces", "ring", "halving")


def test_members_of_several_hosts_merge_in_these_first() -> None:
    layout = Layout(tuple(rank // 8 for rank in range(32)), (8,) * 32)
    choice = choose(64 * MB, layout)
    assert choice.name == "hierarchical" and choice.inner is not None and choice.inner.name in ORDERS


def test_a_slow_link_changes_what_is_best() -> None:
    """Of 20 kB the messages count on a good link, and the bytes on a bad one."""
    names = [choose(20_000, apart(16, bytes_s)).name for bytes_s in (10e9, 1e6)]
    assert names[0] in ("gossip", "star", "tree") and names[1] in ("halving", "ring", "pieces")


@given(
    nbytes=st.integers(0, 1 << 28),
    hosts=st.lists(st.integers(0, 4), min_size=2, max_size=20),
    cores=st.integers(1, 16),
    bytes_s=st.sampled_from([0.0, 1e7, 1e10]),
)
@settings(max_examples=150, deadline=None)
def test_it_says_what_it_has_weighed(nbytes: int, hosts: list[int], cores: int, bytes_s: float) -> None:
    layout = Layout(tuple(hosts), (cores,) * len(hosts), Plan(bytes_s=bytes_s))
    choice = choose(nbytes, layout)
    assert choice == choose(nbytes, layout)
    assert all(name in choice.why for name in ORDERS if name != choice.name)
    if choice.name in ORDERS:
        assert seconds(choice.name, nbytes, layout) == min(seconds(name, nbytes, layout) for name in ORDERS)
    assert choice.chunks <= max(nbytes // CHUNK_BYTES, 1)


def test_who_asks_for_an_order_has_it() -> None:
    for name in ORDERS:
        assert choose(1000, apart(4), name).name == name
    assert choose(1000, Layout((0, 0, 1, 1)), "hierarchical").name == "hierarchical"
    # There is nothing to merge first within one host, and TensorFlow's hint for GPUs says nothing of processors.
    assert choose(1000, together(4), "hierarchical").name in ORDERS
    assert choose(1000, together(4), "nccl") == choose(1000, together(4))
