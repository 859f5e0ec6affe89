"""When a task is started again: waits that grow, windows, giving up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from dtfctl.health.restart import (
    Ending,
    GiveUp,
    RestartAfter,
    RestartHistory,
    RestartPolicy,
    decide,
    delay_s,
)

STEADY = RestartPolicy(jitter=0.0)
FAILED = Ending(exit_code=1)


def waits(policy: RestartPolicy, failures: int, every_s: float, ran_s: float = 0.0) -> list[float | str]:
    """What follows each of so many failures."""
    history = RestartHistory()
    found: list[float | str] = []
    for number in range(failures):
        history, decision = decide(policy, history, ran_s=ran_s, ending=FAILED, now=number * every_s, rand=0.5)
        found.append(decision.delay_s if isinstance(decision, RestartAfter) else decision.state)
    return found


def test_waits_grow_and_a_crash_loop_is_given_up() -> None:
    assert waits(STEADY, 6, 1.0) == [0.0, 0.5, 1.0, 2.0, 4.0, "crashed"]


def test_a_crash_loop_is_given_up_within_fifteen_seconds() -> None:
    worst = sum(delay_s(RestartPolicy(), n, 0.999999) for n in range(1, 6))
    assert worst < 15.0


def test_failures_outside_the_window_do_not_count_for_it_but_in_a_row_they_do() -> None:
    rare = RestartPolicy(jitter=0.0, within_s=10.0, attempts=3)
    assert waits(rare, 5, 100.0) == [0.0, 0.5, 1.0, "crashed", "crashed"]
    assert waits(rare, 5, 100.0, ran_s=99.0) == [0.0] * 5


def test_failures_on_other_hosts_count_and_are_told() -> None:
    """Of six, only the last two were here: nobody is told "failed 2 times in 0 s"."""
    policy = replace(STEADY, earlier=4, earlier_hosts=2)
    history, decision = decide(policy, RestartHistory(), ran_s=0.0, ending=FAILED, now=0.0, rand=0.5)
    assert isinstance(decision, RestartAfter)
    _, decision = decide(policy, history, ran_s=0.0, ending=FAILED, now=0.1, rand=0.5)
    assert decision == GiveUp("crashed", "failed 6 times on 3 hosts")


def test_a_healthy_run_resets_the_wait() -> None:
    history, _ = decide(STEADY, RestartHistory(), ran_s=0.0, ending=FAILED, now=0.0, rand=0.5)
    history, _ = decide(STEADY, history, ran_s=0.0, ending=FAILED, now=1.0, rand=0.5)
    _, decision = decide(STEADY, history, ran_s=61.0, ending=FAILED, now=62.0, rand=0.5)
    assert decision == RestartAfter(0.0)


@pytest.mark.parametrize(
    ("policy", "ending", "expected"),
    [
        (STEADY, Ending(0), "done"),
        (RestartPolicy(when="always", jitter=0.0), Ending(0), 0.0),
        (RestartPolicy(when="never"), FAILED, "failed"),
        (RestartPolicy(never_exit=(2,)), Ending(2), "failed"),
        (RestartPolicy(never_exit=(2,)), Ending(2, forced=True), 0.0),
        (RestartPolicy(limited=True, only_exit=(75,)), Ending(1), "failed"),
        (RestartPolicy(limited=True, only_exit=(75,)), Ending(75), 0.0),
        (RestartPolicy(limited=True), Ending(137, signal=9), 0.0),
        (RestartPolicy(limited=True), Ending(None), 0.0),
        (RestartPolicy(attempts=0), FAILED, "crashed"),
        (STEADY, Ending(0, forced=True), 0.0),
    ],
)
def test_what_follows_an_ending(policy: RestartPolicy, ending: Ending, expected: float | str) -> None:
    _, decision = decide(policy, RestartHistory(), ran_s=0.0, ending=ending, now=0.0, rand=0.5)
    assert (decision.delay_s if isinstance(decision, RestartAfter) else decision.state) == expected


@given(st.integers(1, 10_000), st.floats(0.0, 1.0, exclude_max=True))
def test_a_wait_is_never_negative_nor_far_above_its_maximum(failures: int, rand: float) -> None:
    policy = RestartPolicy()
    assert 0.0 <= delay_s(policy, failures, rand) <= policy.max_s * (1 + policy.jitter)


@given(st.lists(st.floats(0.0, 30.0), min_size=1, max_size=60))
def test_restarts_in_a_window_never_exceed_the_attempts(gaps: list[float]) -> None:
    history, now, restarts = RestartHistory(), 0.0, []
    for gap in gaps:
        now += gap
        history, decision = decide(STEADY, history, ran_s=gap, ending=FAILED, now=now, rand=0.5)
        if isinstance(decision, GiveUp):
            break
        restarts.append(now)
    assert sum(now - t < STEADY.within_s for t in restarts) <= STEADY.attempts
