"""The life of one process: a simulated host obeys the machine, and the promises hold for every history."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dtfctl.health.restart import Ending, RestartPolicy
from dtfctl.launcher.agent.units.lifecycle import (
    Order,
    Record,
    advance,
    cannot_start,
    describe,
    ended,
    hangs,
    next_time,
    ready,
)
from dtfctl.launcher.model import GAVE_UP
from tests.support.examples import examples

POLICY = RestartPolicy(jitter=0.0)
RUN = Order(run=True, grace_s=2.0)
FAILED = Ending(exit_code=1)


def started(order: Order = RUN) -> Record:
    record, action = advance(Record(), order, 0.0)
    assert action == "start"
    return ready(record)


def test_every_start_has_a_higher_incarnation_than_the_floor() -> None:
    record, _ = advance(Record(incarnation=3), replace(RUN, incarnation_floor=7), 0.0)
    assert record.incarnation == 8


def test_restarts_are_counted_on_from_what_other_hosts_have_counted() -> None:
    moved = replace(RUN, incarnation_floor=1005, starts_floor=5)
    record, _ = advance(Record(), moved, 0.0)
    assert record.restarts == 5
    record = ended(record, moved, POLICY, FAILED, now=1.0, rand=0.5)
    assert advance(record, moved, 1.0)[0].restarts == 6, "what it has counted itself is newer than its order"
    back, _ = advance(Record(incarnation=3, restarts=2), replace(moved, starts_floor=9), 0.0)
    assert back.restarts == 9


def test_a_restart_request_ends_it_gently_then_starts_it_at_once_with_a_clean_history() -> None:
    asked = replace(RUN, restart_request=1)
    record, action = advance(started(), asked, 1.0)
    assert (record.state, action) == ("stopping", "terminate")
    record = ended(record, asked, POLICY, Ending(143, 15), now=1.5, rand=0.5)
    assert record.reason == "restarted on request"
    record, action = advance(record, asked, 1.5)
    assert (record.state, action, record.incarnation, record.reason) == ("starting", "start", 2, "")
    assert advance(ready(record), asked, 2.0) == (ready(record), None)


def test_sigkill_follows_when_the_grace_is_over_and_again_until_it_is_gone() -> None:
    record, _ = advance(started(), replace(RUN, run=False), 10.0)
    assert next_time(record) == 12.0
    assert advance(record, replace(RUN, run=False), 11.9)[1] is None
    record, action = advance(record, replace(RUN, run=False), 12.0)
    assert action == "kill"
    assert advance(record, replace(RUN, run=False), next_time(record) or 0.0)[1] == "kill"


def test_a_hung_process_is_killed_at_once_and_counts_as_a_failure() -> None:
    record = hangs(started(), "no beat for 5.0 s", 5.0)
    record, action = advance(record, RUN, 5.0)
    assert action == "kill"
    record = ended(record, RUN, POLICY, Ending(137, 9), now=5.1, rand=0.5)
    assert (record.state, record.reason, len(record.history.failures)) == ("pending", "no beat for 5.0 s", 1)


def test_what_gave_up_is_left_only_by_a_restart_request() -> None:
    for state in sorted(GAVE_UP):
        record = Record(state=state, incarnation=4)
        assert advance(record, RUN, 100.0) == (record, None)
        assert advance(record, replace(RUN, run=False), 100.0) == (record, None)
        again, action = advance(record, replace(RUN, restart_request=1), 100.0)
        assert (again.state, again.incarnation, action) == ("starting", 5, "start")


def test_an_impossible_start_is_final_and_says_why() -> None:
    record, _ = advance(Record(), RUN, 0.0)
    record = cannot_start(record, "port 80 is taken")
    assert (record.state, record.reason) == ("failed", "port 80 is taken")


def test_endings_in_words() -> None:
    assert describe(Ending(137, 9)) == "killed by SIGKILL"
    assert describe(Ending(3)) == "exit code 3"
    assert "unknown" in describe(Ending(None))


class Host(RuleBasedStateMachine):
    """A host that carries out what `advance` asks for; hypothesis chooses faults and orders."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.record = Record()
        self.order = RUN
        self.alive: set[int] = set()
        self.started: list[tuple[float, int]] = []
        self.terminated = False
        self.stop_seen: float | None = None

    def turn(self) -> None:
        for _ in range(3):
            record, action = advance(self.record, self.order, self.now)
            self.record = record
            if action == "start":
                assert not self.alive, "two incarnations at once"
                assert all(record.incarnation > number for _, number in self.started)
                assert self.order.run, "started what is to be stopped"
                self.alive.add(record.incarnation)
                self.started.append((self.now, record.incarnation))
                self.terminated = False
            elif action == "terminate":
                self.terminated = True
            elif action == "kill":
                self.finish(Ending(137, 9))
                return

    def finish(self, ending: Ending) -> None:
        self.alive.clear()
        self.record = ended(self.record, self.order, POLICY, ending, now=self.now, rand=0.5)

    @rule(seconds=st.floats(0.01, 40.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.turn()

    @precondition(lambda self: self.alive)
    @rule(code=st.sampled_from([0, 1, 137]))
    def dies(self, code: int) -> None:
        self.finish(Ending(code, 9 if code == 137 else None))
        self.turn()

    @precondition(lambda self: self.alive and self.terminated)
    @rule()
    def obeys_sigterm(self) -> None:
        self.finish(Ending(143, 15))
        self.turn()

    @precondition(lambda self: self.alive)
    @rule()
    def becomes_ready(self) -> None:
        self.record = ready(self.record)

    @precondition(lambda self: self.alive)
    @rule()
    def is_hung(self) -> None:
        self.record = hangs(self.record, "no beat", self.now)
        self.turn()

    @rule(run=st.booleans())
    def user_stops_or_starts(self, run: bool) -> None:
        self.order = replace(self.order, run=run)
        self.turn()

    @rule()
    def user_restarts(self) -> None:
        self.order = replace(self.order, run=True, restart_request=self.order.restart_request + 1)
        self.turn()

    @invariant()
    def at_most_one_incarnation_lives_and_the_record_knows_it(self) -> None:
        assert len(self.alive) == (1 if self.record.is_alive else 0)

    @invariant()
    def there_is_no_restart_storm(self) -> None:
        """Apart from the user's own restarts, five restarts in a row are the most that come without a healthy run."""
        assert self.record.history.since_healthy <= POLICY.attempts + 1

    @invariant()
    def it_converges(self) -> None:
        """With nothing more happening, the order is reached, or the policy gave up."""
        record, now = self.record, self.now
        for _ in range(30):
            record, action = advance(record, self.order, now)
            if action == "kill":
                record = ended(record, self.order, POLICY, Ending(137, 9), now=now, rand=0.5)
            elif action == "start":
                record = ready(record)
            at = next_time(record)
            now = max(now, at) if at is not None else now
        if not self.order.run:
            assert record.state in {"stopped", *GAVE_UP}
        else:
            assert record.state in {"running", "starting", *GAVE_UP}


TestHost = Host.TestCase
TestHost.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)
