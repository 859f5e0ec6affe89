"""What is known of links is kept, and one that has become worse is an event."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.controller.hosts.links import LinkRecord, degraded
from dtfctl.launcher.controller.state.store import Store, read_events
from dtfctl.launcher.model import LinkStatus

FAST = LinkStatus("a", "b", round_trip_s=0.0002, bytes_s=500e6, measured=1.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "controller.db")
    yield made
    made.close()


def events(store: Store) -> list[tuple[str, str, str]]:
    return [(e.kind, e.subject, e.reason) for e in read_events(store.path, 0, 0.0, 100)]


def test_what_was_measured_outlives_the_controller(store: Store) -> None:
    other = LinkStatus("b", "a", round_trip_s=0.0002, bytes_s=400e6, measured=2.0)
    record = LinkRecord(store)
    record.take(FAST)
    record.take(other)
    again = LinkRecord(store)
    assert again.known({"a", "b"}) == (FAST, other)
    assert again.known({"a", "c"}) == ()
    assert events(store) == []


def test_a_link_that_has_become_worse_is_an_event_once(store: Store) -> None:
    record = LinkRecord(store)
    record.take(FAST)
    slow = LinkStatus("a", "b", round_trip_s=0.0002, bytes_s=12.5e6, measured=2.0)
    record.take(slow)
    record.take(slow)
    ((kind, subject, reason),) = events(store)
    assert (kind, subject) == ("link.degraded", "host:b")
    assert "from a" in reason and "12.5 MB/s" in reason and "500" in reason


def test_what_could_not_be_measured_leaves_what_was_known(store: Store) -> None:
    record = LinkRecord(store)
    record.take(FAST)
    record.take(LinkStatus("a", "b", measured=2.0, problem="10.0.0.1:7 does not answer: it was cut"))
    assert record.known({"a", "b"}) == (FAST,)
    assert events(store) == [("link.failed", "host:b", "from a: 10.0.0.1:7 does not answer: it was cut")]


@pytest.mark.parametrize(
    ("round_trip_s", "bytes_s", "is_worse"),
    [(0.0002, 250e6, False), (0.0002, 190e6, True), (0.002, 500e6, False), (0.02, 500e6, True), (0.0001, 900e6, False)],
)
def test_noise_is_no_degradation(round_trip_s: float, bytes_s: float, is_worse: bool) -> None:
    now = LinkStatus("a", "b", round_trip_s=round_trip_s, bytes_s=bytes_s, measured=2.0)
    assert bool(degraded(FAST, now)) is is_worse
    assert not degraded(None, now)
