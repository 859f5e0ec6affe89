"""The machine that decides how a step goes: stories told by hand, and events in any order."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.runtime.framework.errors import (
    CancelledError,
    DeadlineExceededError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from dtfctl.runtime.steps.coordinator import LONGEST_STORY, Coordinator, Do, Instruction, Parts, first_error
from dtfctl.runtime.steps.grace import FAILED_GRACE_S, GRACE_S
from tests.support.examples import examples

PS, WORKER, CHIEF = "ps", "worker", "chief"
FINISHED = Instruction(Do.FINISHED)


def run(part: str) -> Instruction:
    return Instruction(Do.RUN, part)


def cancel(part: str) -> Instruction:
    return Instruction(Do.CANCEL, part)


def forget(*parts: str) -> tuple[Instruction, ...]:
    return tuple(Instruction(Do.CLEANUP, part) for part in parts)


def all_started(parts: Parts, keeps: bool = False) -> Coordinator:
    """A step of which every part runs."""
    step = Coordinator(parts, keeps)
    assert step.begin() == (run(parts.names[0]),)
    for part, following in zip(parts.names, parts.names[1:]):
        assert step.started(part) == (run(following),)
    assert step.started(parts.names[-1]) == ()
    return step


# By hand --------------------------------------------------------------------------------------------------------------


def test_a_step_that_succeeds() -> None:
    step = all_started(Parts([PS, WORKER]))
    assert step.done(WORKER, 7) == ()
    assert not step.is_finished and step.pending == {PS}
    assert step.done(PS) == (FINISHED,)
    assert step.error is None and step.results == {PS: None, WORKER: 7}
    assert step.story() == "ran ps, worker; done worker, ps"


def test_parts_that_remember_a_step_that_succeeded_are_told_to_forget_it() -> None:
    step = all_started(Parts([PS, WORKER]), keeps=True)
    assert step.done(WORKER) == ()
    assert step.done(PS) == (*forget(PS, WORKER), FINISHED)


def test_a_step_without_parts_has_ended() -> None:
    assert Coordinator(Parts([])).begin() == (FINISHED,)


def test_the_first_real_error_wins_over_those_it_caused() -> None:
    step = all_started(Parts([PS, WORKER, CHIEF]))
    consequence = UnavailableError("the ps is gone", derived=True)
    assert step.failed(CHIEF, consequence, 0.0) == ()
    cause, later = InvalidArgumentError("real"), InvalidArgumentError("real too")
    assert step.failed(PS, cause, 0.0) == (cancel(WORKER),)
    assert step.failed(WORKER, later, 0.0) == (*forget(PS, WORKER, CHIEF), FINISHED)
    assert step.error is cause


def test_a_cancel_before_parts_are_started_starts_none() -> None:
    step = Coordinator(Parts([PS]))
    why = CancelledError("closed")
    assert step.cancelled(why, 0.0) == (FINISHED,)
    assert step.begin() == ()
    assert step.error is why


def test_a_cancel_while_a_part_is_started_is_told_to_it_once_it_was() -> None:
    step = Coordinator(Parts([PS, WORKER]))
    assert step.begin() == (run(PS),)
    assert step.cancelled(CancelledError("closed"), 0.0) == ()
    assert step.started(PS) == (cancel(PS),)
    assert step.failed(PS, CancelledError("closed", derived=True), 0.0) == (*forget(PS), FINISHED)


def test_a_part_that_ends_before_its_start_is_heard_of() -> None:
    step = Coordinator(Parts([PS, WORKER]))
    step.begin()
    assert step.done(PS, 1) == ()
    assert step.started(PS) == (run(WORKER),)
    assert step.done(WORKER, 2) == ()
    assert step.started(WORKER) == (FINISHED,)
    assert step.results == {PS: 1, WORKER: 2}


def test_a_part_that_cannot_be_started_ends_the_step() -> None:
    step = Coordinator(Parts([PS, WORKER, CHIEF]))
    step.begin()
    assert step.started(PS) == (run(WORKER),)
    gone = UnavailableError("gone")
    assert step.lost(WORKER, gone, 0.0) == (cancel(PS),)
    assert step.started(WORKER) == ()
    assert step.done(PS) == (*forget(PS, WORKER), FINISHED)
    assert step.error is gone
    assert "lost worker" in step.story() and CHIEF not in step.story()


@pytest.mark.parametrize(
    ("why", "grace"), [(CancelledError("c"), GRACE_S), (DeadlineExceededError("d"), GRACE_S), (None, FAILED_GRACE_S)]
)
def test_the_grace_ends_by_tick(why: OpError | None, grace: float) -> None:
    step = all_started(Parts([PS, WORKER]))
    if why is None:
        why = InvalidArgumentError("real")
        step.failed(WORKER, why, 100.0)
    else:
        step.cancelled(why, 100.0)
        step.failed(WORKER, CancelledError("c", derived=True), 100.0)
    assert step.ends_by == 100.0 + grace
    assert step.tick(100.0 + grace - 0.01) == ()
    assert step.tick(100.0 + grace) == (*forget(PS, WORKER), FINISHED)
    assert step.error is why and step.ends_by is None
    assert "given up ps" in step.story()


def test_who_runs_a_step_may_go_away_at_any_time() -> None:
    step = Coordinator(Parts([PS, WORKER, CHIEF]))
    step.begin()
    step.started(PS)
    why = CancelledError("interrupted")
    assert step.abandoned(why) == (*forget(PS, WORKER), FINISHED)
    assert step.error is why
    assert step.abandoned(why) == () == step.started(WORKER)


def test_quiet_parts_are_not_waited_for_unless_something_fails() -> None:
    parts = Parts([PS, WORKER, CHIEF], quiet=[PS])
    step = all_started(parts)
    assert step.done(CHIEF) == ()
    assert step.done(WORKER) == (FINISHED,)
    step = all_started(parts)
    assert step.failed(WORKER, UnavailableError("of something else", derived=True), 0.0) == (cancel(PS),)
    assert step.done(CHIEF) == ()
    real = InvalidArgumentError("real")
    assert step.failed(PS, real, 0.0) == (*forget(PS, WORKER, CHIEF), FINISHED)
    assert step.error is real


def test_a_quiet_part_is_cancelled_with_the_others() -> None:
    step = all_started(Parts([PS, WORKER, CHIEF], quiet=[PS]))
    assert set(step.failed(CHIEF, InvalidArgumentError("real"), 0.0)) == {cancel(WORKER), cancel(PS)}
    assert step.pending == {PS, WORKER}


def test_the_end_of_a_part_that_was_not_started_is_no_end() -> None:
    step = Coordinator(Parts([PS, WORKER]))
    step.begin()
    assert step.done(WORKER) == ()
    step.started(PS)
    step.started(WORKER)
    step.done(PS)
    assert not step.is_finished


def test_a_story_is_bounded() -> None:
    names = [str(i) for i in range(LONGEST_STORY)]
    step = all_started(Parts(names))
    for name in names:
        step.done(name)
    assert step.is_finished
    assert step.story().endswith(f"and {LONGEST_STORY} events more")


def test_the_first_real_error_of_several() -> None:
    derived, real, other = UnavailableError("d", derived=True), UnavailableError("r"), UnavailableError("o")
    assert first_error([]) is None
    assert first_error([derived]) is derived
    assert first_error([derived, real, other]) is real


# In any order ---------------------------------------------------------------------------------------------------------


class Follower:
    """Does what a coordinator says, and sees to what must hold of that."""

    def __init__(self, count: int, quiet: frozenset[int], keeps: bool) -> None:
        self.names = [f"task {i}" for i in range(count)]
        self.quiet = {self.names[i] for i in quiet if i < count}
        self.keeps = keeps
        self.step = Coordinator(Parts(self.names, self.quiet), keeps)
        self.now = 0.0
        self.to_start = ""
        self.started: list[str] = []
        self.told: list[str] = []
        self.forgotten: list[str] = []
        self.ended: set[str] = set()
        self.real: list[OpError] = []
        self.cancelled: OpError | None = None
        self.finished = 0

    def obey(self, instructions: Iterable[Instruction]) -> None:
        for do, part in instructions:
            assert not self.finished, f"{do} after the end"
            if do is Do.RUN:
                assert not self.to_start and part not in self.started
                assert not self.step.is_ending, "a part was started in a step that ends"
                self.to_start = part
            elif do is Do.CANCEL:
                assert part in self.started and part not in self.told
                self.told.append(part)
            elif do is Do.CLEANUP:
                assert part in self.started and part not in self.forgotten
                self.forgotten.append(part)
            else:
                self.finished += 1
        if self.finished:
            assert self.step.is_finished
            assert not self.to_start, "it ended while a part was being started"

    def start(self) -> None:
        if self.to_start:
            part, self.to_start = self.to_start, ""
            self.started.append(part)
            self.obey(self.step.started(part))

    def running(self) -> list[str]:
        begun = [*self.started, self.to_start] if self.to_start else self.started
        return [part for part in begun if part not in self.ended]

    def end(self, part: str, how: str) -> None:
        self.ended.add(part)
        if how == "done":
            self.obey(self.step.done(part, part))
            return
        derived = how == "consequence"
        error = UnavailableError(f"{part}: {how}", derived=derived)
        if not derived and not self.step.is_finished:
            self.real.append(error)
        self.obey((self.step.lost if how == "lost" else self.step.failed)(part, error, self.now))


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["start", "start", "start", "done", "done", "failed", "consequence", "lost", "cancel", "tick", "again"]
        ),
        st.integers(0, 5),
    ),
    max_size=40,
)


@settings(max_examples=examples(600), deadline=None)
@given(st.integers(0, 5), st.frozensets(st.integers(0, 4)), st.booleans(), EVENTS)
def test_every_step_ends_once_and_leaves_nothing(
    count: int, quiet: frozenset[int], keeps: bool, events: list[tuple[str, int]]
) -> None:
    follower = Follower(count, quiet, keeps)
    step = follower.step
    follower.obey(step.begin())
    for event, which in events:
        running = follower.running()
        if event == "start":
            follower.start()
        elif event == "cancel":
            reason = CancelledError("somebody has had enough")
            if not step.is_finished and follower.cancelled is None:
                follower.cancelled = reason
            follower.obey(step.cancelled(reason, follower.now))
        elif event == "tick":
            follower.now += which
            before = step.pending
            follower.obey(step.tick(follower.now))
            # What is heard of those that were given up is not asked for any more.
            follower.ended |= before - step.pending
        elif event == "again" and follower.ended:
            part = sorted(follower.ended)[which % len(follower.ended)]
            follower.obey(step.failed(part, InvalidArgumentError("told twice"), follower.now))
            follower.obey(step.done(part))
        elif running and event in ("done", "failed", "consequence", "lost"):
            follower.end(running[which % len(running)], event)
    # What was to be started is, what was told to end does or is given up, and so does all else in the end.
    while follower.to_start:
        follower.start()
    if not step.is_ending:
        for part in follower.running():
            if part not in follower.quiet or part in follower.told:
                follower.end(part, "done")
    if step.ends_by is not None:
        assert step.pending, "it waits for nobody and does not end"
        follower.obey(step.tick(step.ends_by))
    assert follower.finished == 1
    assert not step.tick(1e9) and not step.cancelled(CancelledError("late"), 1e9)

    error = step.error
    if follower.real:
        assert error is follower.real[0]
    elif follower.cancelled is not None:
        assert error is follower.cancelled
    else:
        assert error is None or error.derived
    whole = error is None and not keeps
    assert follower.forgotten == ([] if whole else follower.started)
    if error is None:
        assert follower.started == follower.names
        assert set(step.results) >= set(follower.names) - follower.quiet
