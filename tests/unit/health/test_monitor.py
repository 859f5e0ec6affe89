"""Beats become verdicts, with a clock that the test owns."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from dtfctl.health.beats import (
    LARGEST_DATAGRAM,
    MOST_LINKS,
    MOST_WORDS,
    Beat,
    Carried,
    PeerDown,
    PeerUp,
    Place,
    pack,
    unpack,
    unpack_all,
)
from dtfctl.health.detector import PhiDetector
from dtfctl.health.monitor import HealthLimits, Monitor, Verdict

LIMITS = HealthLimits()


def watch(
    beats: Callable[[float], bool],
    until: float,
    working: Callable[[float], bool] = lambda now: False,
    observed: Callable[[float], bool] = lambda now: True,
) -> list[tuple[float, Verdict]]:
    """Verdict changes of a monitor that looks every 0.25 s at a sender that beats every 0.5 s while `beats` holds."""
    monitor = Monitor(LIMITS)
    changes: list[tuple[float, Verdict]] = []
    for quarter in range(int(until * 4)):
        now = quarter / 4
        if quarter % 2 == 0 and beats(now):
            monitor.beat(now)
        if not observed(now):
            continue
        if working(now):
            monitor.working(now)
        verdict = monitor.tick(now)
        if not changes or changes[-1][1] != verdict:
            changes.append((now, verdict))
    return changes


def test_a_sender_that_beats_is_healthy_for_ever() -> None:
    assert watch(lambda now: True, 300.0) == [(0.0, "healthy")]


def test_silence_is_suspect_at_two_seconds_and_down_by_five() -> None:
    changes = watch(lambda now: now <= 10.0, 30.0)
    assert [verdict for _, verdict in changes] == ["healthy", "suspect", "down"]
    assert changes[1][0] == 12.0
    assert 13.0 < changes[2][0] <= 15.0


def end_of(beats: list[float]) -> dict[Verdict, float]:
    """After these beats silence: seconds until each verdict, for who looks every half second and when it is told to."""
    monitor = Monitor(LIMITS)
    now = beats[0]
    for beat in beats:
        while now < beat:
            monitor.tick(now)
            now += 0.5
        monitor.beat(beat)
    now = last = beats[-1]
    found: dict[Verdict, float] = {}
    next_tick = now
    while "down" not in found:
        found.setdefault(monitor.tick(now), now - last)
        next_tick = next_tick + 0.5 if now >= next_tick else next_tick
        now = min(next_tick, monitor.look_at(now))
    return found


def test_who_looks_when_told_to_finds_a_sender_suspect_within_two_seconds_and_down_well_before_five() -> None:
    found = end_of([beat * 0.5 for beat in range(20)])
    assert LIMITS.pause_s <= found["suspect"] < 1.9
    assert 4.2 < found["down"] < 4.8


@given(st.lists(st.floats(0.3, 1.7), min_size=1, max_size=100))
def test_no_sender_whose_beats_were_late_is_down_before_four_seconds_nor_after_the_limit(gaps: list[float]) -> None:
    beats = [sum(gaps[:number]) for number in range(len(gaps) + 1)]
    assert 4.0 <= end_of(beats)["down"] <= LIMITS.down_after_s + 0.5


def test_nobody_is_told_to_look_at_what_beats_or_has_not_begun_to() -> None:
    monitor = Monitor(LIMITS)
    assert monitor.look_at(7.0) == math.inf
    monitor.beat(7.0)
    assert monitor.look_at(7.0) == 7.0 + LIMITS.pause_s
    monitor.beat(7.5)
    assert monitor.look_at(8.0) == 7.5 + LIMITS.pause_s


def test_a_short_silence_is_forgiven() -> None:
    assert watch(lambda now: not 10.0 < now < 11.9, 30.0) == [(0.0, "healthy")]


def test_before_the_first_beat_nothing_is_known() -> None:
    assert watch(lambda now: False, 100.0) == [(0.0, "unknown")]


def test_a_process_that_computes_without_beats_is_not_killed_for_a_minute() -> None:
    changes = watch(lambda now: now <= 10.0, 100.0, working=lambda now: True)
    assert [verdict for _, verdict in changes] == ["healthy", "suspect", "down"]
    assert changes[2][0] == pytest.approx(10.0 + LIMITS.busy_limit_s, abs=0.5)


def test_work_that_ends_is_no_excuse_any_more() -> None:
    changes = watch(lambda now: now <= 10.0, 60.0, working=lambda now: now < 20.0)
    assert changes[-1][1] == "down"
    assert changes[-1][0] <= 25.0


def test_the_watchers_own_sleep_is_no_evidence() -> None:
    """The machine was suspended from 10 to 100: neither beats nor looks."""
    asleep = lambda now: 10.0 < now < 100.0  # noqa: E731
    assert watch(lambda now: not asleep(now), 130.0, observed=lambda now: not asleep(now)) == [(0.0, "healthy")]


def test_a_sender_that_died_while_the_watcher_slept_is_still_found() -> None:
    changes = watch(lambda now: now <= 10.0, 130.0, observed=lambda now: not 10.0 < now < 100.0)
    assert changes[-1][1] == "down"
    assert 100.0 < changes[-1][0] <= 106.0


def test_irregular_beats_make_it_slower_to_suspect_but_never_later_than_the_limit() -> None:
    monitor = Monitor(LIMITS)
    now = 0.0
    for number in range(100):
        now += 0.2 if number % 2 else 1.9
        monitor.beat(now)
    last = now
    while monitor.tick(now) != "down":
        now += 0.25
    assert now - last <= LIMITS.down_after_s + 0.25


@given(st.lists(st.floats(0.05, LIMITS.pause_s - 0.05), min_size=1, max_size=300))
def test_no_sequence_of_gaps_below_the_pause_is_ever_suspect(gaps: list[float]) -> None:
    monitor = Monitor(LIMITS)
    now = 0.0
    monitor.beat(now)
    for gap in gaps:
        looks = int(gap / 0.25)
        for look in range(1, looks + 1):
            assert monitor.tick(now + look * 0.25) == "healthy"
        now += gap
        monitor.beat(now)
        assert monitor.tick(now) == "healthy"


def test_phi_grows_with_silence() -> None:
    detector = PhiDetector(0.5)
    for beat in range(50):
        detector.beat(beat * 0.5)
    values = [detector.phi(24.5 + silence) for silence in (0.1, 0.5, 1.0, 2.0, 5.0)]
    assert values == sorted(values)
    assert values[0] < 1.0 < 8.0 < values[-1]


@pytest.mark.parametrize(
    "note",
    [
        Beat("worker/1", 3, True, 17),
        Beat("worker/1", 3, True, 17, links=(Carried("ps/0", "tcp", True, 1.18e8, 5, "int8 off"),)),
        Beat("worker/1", 3, True, 17, news=("1 groups go another way",)),
        Place("r1", (("ps/0", 1.18e8),)),
        PeerDown("ps", 0, 2, "killed by SIGKILL"),
        PeerUp("ps", 0, "127.0.0.1:1", 3),
    ],
)
def test_notes_survive_the_way(note: Beat | PeerDown | PeerUp | Place) -> None:
    assert unpack(pack(note)) == note


def test_a_beat_with_as_many_links_as_it_may_have_is_one_datagram() -> None:
    link = Carried("worker/123456", "grpc", True, 1.234e9, 1 << 40, MOST_WORDS * "\n")
    assert len(pack(Beat("worker/123456", 3, True, 17, links=MOST_LINKS * (link,)))) < LARGEST_DATAGRAM


def test_many_notes_are_one_datagram() -> None:
    notes = [PeerUp("ps", 0, "a:1", 3), PeerDown("worker", 1, 2, "killed\nby hand"), Beat("worker/1", 3, True, 17)]
    assert unpack_all(b"\n".join(map(pack, notes))) == notes


@given(st.binary(max_size=200))
def test_what_is_no_note_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        unpack(data)
