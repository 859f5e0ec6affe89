"""The life of a job, from reports that the test makes up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from dtfctl.health.restart import RestartPolicy
from dtfctl.launcher.controller.decisions.job_orders import client_orders
from dtfctl.launcher.controller.decisions.job_queue import schedule
from dtfctl.launcher.controller.state.job_lifecycle import (
    FINISH_S,
    Clock,
    JobRecord,
    JobView,
    cancel,
    step,
)
from dtfctl.launcher.messages.reports import ClientReport
from dtfctl.launcher.model import JobRequest, TaskState, TaskStatus
from dtfctl.launcher.spec.model import ClusterSpec, TaskGroup

NOW = 1000.0
TASKS = [TaskStatus(job, index, "running") for job, index in (("ps", 0), ("worker", 0), ("worker", 1))]
BY_NAME = {task.name: task for task in TASKS}
HOSTS = {"ps/0": "a", "worker/0": "a", "worker/1": "b"}


def job(job_id: str = "j-1", **request: object) -> JobRecord:
    return JobRecord(job_id, replace(JobRequest("train.py"), **request), "", "", "", NOW)


def running(**request: object) -> JobRecord:
    request = {"success": "all", **request}
    (started,) = schedule([job(**request)], TASKS, {}, NOW)
    assert started.state == "running"
    return started


def view(*clients: tuple[str, TaskState, int | None], generation: int = 1, held: int = 1) -> JobView:
    reports = {}
    for name, state, code in clients:
        task, _, index = name.partition("/")
        reports[name] = ClientReport(
            "j-1",
            task,
            int(index),
            state,
            exit_code=code,
            last_error="" if code in (None, 0) else f"exit code {code}",
            generation=generation,
            held=held,
            addresses=(f"{HOSTS[name]}:{1000 + held}",),
        )
    return JobView({"j-1": reports}, HOSTS, RestartPolicy(jitter=0.0))


def test_restarts_of_a_process_are_counted_on_where_it_has_moved() -> None:
    def seen(restarts: int, generation: int = 1) -> JobView:
        report = ClientReport("j-1", "worker", 0, "running", restarts=restarts, generation=generation)
        return JobView({"j-1": {"worker/0": report}}, HOSTS)

    moved = step(step(running(), seen(2), BY_NAME, NOW), JobView({}, HOSTS), BY_NAME, NOW)
    assert (moved.restarts, moved.starts) == (2, {"worker/0": 3}), "nobody has heard of it from its new host yet"
    assert step(moved, seen(0, generation=0), BY_NAME, NOW).restarts == 2, "it waits there for its first start"
    assert step(moved, seen(3), BY_NAME, NOW).restarts == 3
    spec = ClusterSpec("c", {"ps": TaskGroup(1), "worker": TaskGroup(2)})
    (order,) = client_orders(spec, RestartPolicy(), HOSTS, moved, "a")
    assert order.starts_floor == 3


def test_success_needs_every_process() -> None:
    half = step(running(), view(("worker/0", "done", 0), ("worker/1", "running", None)), BY_NAME, NOW)
    assert half.state == "running"
    whole = step(half, view(("worker/0", "done", 0), ("worker/1", "done", 0)), BY_NAME, NOW + 5)
    assert (whole.state, whole.exit_code, whole.ended) == ("succeeded", 0, NOW + 5)


def test_a_failure_decides_but_the_job_ends_only_with_its_last_process() -> None:
    dying = step(running(), view(("worker/0", "running", None), ("worker/1", "failed", 3)), BY_NAME, NOW)
    assert dying.state == "running"
    assert dying.ending is not None
    assert (dying.ending.state, dying.ending.exit_code) == ("failed", 3)
    over = step(dying, view(("worker/0", "stopped", 143), ("worker/1", "failed", 3)), BY_NAME, NOW)
    assert (over.state, over.exit_code) == ("failed", 3)


def test_the_chiefs_exit_code_goes_first() -> None:
    over = step(running(), view(("worker/0", "failed", 4), ("worker/1", "failed", 5)), BY_NAME, NOW)
    assert over.exit_code == 4


def test_a_task_that_is_away_makes_it_recovering_and_back_again() -> None:
    clients = view(("worker/0", "running", None), ("worker/1", "running", None))
    away = {**BY_NAME, "ps/0": replace(TASKS[0], state="pending")}
    recovering = step(running(), clients, away, NOW)
    assert (recovering.state, recovering.reason) == ("recovering", "ps/0 is pending")
    assert step(recovering, clients, BY_NAME, NOW).state == "running"


def test_a_task_that_is_given_up_ends_the_job_with_the_reason() -> None:
    crashed = {**BY_NAME, "ps/0": replace(TASKS[0], state="crashed", last_error="exit code 9")}
    clients = view(("worker/0", "running", None), ("worker/1", "running", None))
    ending = step(running(), clients, crashed, NOW).ending
    assert ending is not None
    assert (ending.state, ending.reason) == ("failed", "ps/0 is crashed: exit code 9")


def test_cancelling_a_queued_job_is_immediate_and_a_running_one_waits() -> None:
    assert step(cancel(job(), 1.0), view(), BY_NAME, NOW).state == "cancelled"
    ending = cancel(running(), 1.0)
    busy = view(("worker/0", "stopping", None), ("worker/1", "stopped", 143))
    assert step(ending, busy, BY_NAME, NOW).state == "running"
    gone = view(("worker/0", "stopped", 143), ("worker/1", "stopped", 143))
    assert step(ending, gone, BY_NAME, NOW).state == "cancelled"


def test_a_time_limit_fails_the_job() -> None:
    clients = view(("worker/0", "running", None), ("worker/1", "running", None))
    late = step(running(max_time_s=10.0), clients, BY_NAME, NOW + 11)
    assert late.ending is not None
    assert late.ending.exit_code == 124


def test_a_clock_that_is_set_does_not_end_a_job() -> None:
    fit = view(("worker/0", "running", None), ("worker/1", "running", None))
    record = step(running(max_time_s=10.0), replace(fit, clock=Clock("boot", 5.0)), BY_NAME, NOW)
    set_ahead = step(record, replace(fit, clock=Clock("boot", 9.0)), BY_NAME, NOW + 3600)
    assert set_ahead.ending is None
    late = step(record, replace(fit, clock=Clock("boot", 15.5)), BY_NAME, NOW - 3600)
    assert late.ending is not None
    rebooted = step(record, replace(fit, clock=Clock("another", 1.0)), BY_NAME, NOW + 11)
    assert rebooted.ending is not None


def test_a_worker_that_never_came_is_not_waited_for() -> None:
    lost = {**BY_NAME, "worker/1": replace(TASKS[2], state="lost")}
    record = step(running(), view(("worker/0", "done", 0)), lost, NOW)
    assert (record.ending and record.ending.state) == "succeeded"
    had_run = view(("worker/0", "done", 0), ("worker/1", "running", None))
    assert step(running(), had_run, lost, NOW).ending is None, "its part of the work may be missing"


STATES = st.sampled_from(["pending", "starting", "running", "stopping", "done", "failed", "crashed", "stopped"])


@given(st.lists(st.tuples(STATES, STATES, st.booleans()), max_size=12))
def test_a_final_job_never_changes(history: list[tuple[TaskState, TaskState, bool]]) -> None:
    record = running()
    final: JobRecord | None = None
    for number, (one, two, user_cancels) in enumerate(history):
        if user_cancels:
            record = cancel(record, 1.0)
        record = step(record, view(("worker/0", one, 1), ("worker/1", two, 1)), BY_NAME, NOW + number)
        if final is not None:
            assert record == final
        elif record.is_final:
            final = record
            assert record.exit_code is not None
            assert record.ended is not None


@pytest.mark.parametrize("name", ["worker/0", "worker/1"])
def test_a_process_nobody_has_reported_yet_is_not_taken_for_an_ended_one(name: str) -> None:
    ending = cancel(running(), 1.0)
    assert step(ending, view((name, "stopped", 143)), BY_NAME, NOW).state == "running"


# Groups that cannot lose a process: torch, jax -----------------------------------------------------------------------


def ready(generation: int) -> JobView:
    """Every host is ready for it, and nothing runs."""
    return view(
        ("worker/0", "stopped", None), ("worker/1", "stopped", None), generation=generation - 1, held=generation
    )


def torch(**request: object) -> JobRecord:
    released = step(running(framework="torch", **request), ready(1), BY_NAME, NOW)
    assert released.released
    return released


def test_a_group_is_released_when_every_host_is_ready_for_it() -> None:
    record = running(framework="torch")
    assert not record.released
    half = view(("worker/0", "stopped", None), generation=0, held=1)
    assert not step(record, half, BY_NAME, NOW).released
    old = view(("worker/0", "stopped", None), ("worker/1", "running", None), generation=0, held=1)
    assert not step(record, old, BY_NAME, NOW).released
    whole = step(record, ready(1), BY_NAME, NOW)
    assert [(m.name, m.host, m.addresses) for m in whole.members] == [
        ("worker/0", "a", ("a:1001",)),
        ("worker/1", "b", ("b:1001",)),
    ]


def test_a_killed_process_restarts_the_group_once_with_other_ports() -> None:
    died = view(("worker/0", "failed", 1), ("worker/1", "failed", 137))
    again = step(torch(), died, BY_NAME, NOW + 1)
    assert (again.generation, again.released, again.state) == (2, False, "recovering")
    assert "worker/1: exit code 137" in again.reason
    assert again.restarts == 1
    late = step(again, died, BY_NAME, NOW + 2)
    assert late == replace(again, clients=late.clients), "old reports are no news"
    released = step(late, ready(2), BY_NAME, NOW + 3)
    assert (released.released, released.members[0].addresses) == (True, ("a:1002",))
    assert step(released, ready(2), BY_NAME, NOW + 4).generation == 2


def test_a_process_that_only_saw_its_peer_vanish_is_not_to_blame() -> None:
    first = step(torch(), view(("worker/0", "failed", 1), ("worker/1", "running", None)), BY_NAME, NOW)
    assert first.ending is not None
    assert not first.is_final
    after = step(first, view(("worker/0", "failed", 1), ("worker/1", "failed", 137)), BY_NAME, NOW)
    assert (after.generation, after.ending) == (2, None)
    lost = {**BY_NAME, "worker/1": replace(TASKS[2], state="lost", host="b")}
    gone = step(first, view(("worker/0", "failed", 1), ("worker/1", "running", None)), lost, NOW)
    assert (gone.generation, gone.ending) == (2, None)


def test_a_group_of_which_nobody_works_starts_again_and_one_that_waits_for_a_member_does_not() -> None:
    record, works = torch(), view(("worker/0", "running", None), ("worker/1", "running", None))
    first, second = works.clients["j-1"].values()

    def seen(*reports: ClientReport) -> JobView:
        return replace(works, clients={"j-1": {report.name: report for report in reports}})

    idle = replace(first, idle_s=601.0)
    assert step(record, seen(idle, second), BY_NAME, NOW + 700).generation == 1, "the other reads its data"
    assert step(record, seen(idle), BY_NAME, NOW + 700).generation == 1, "of the other nothing is known"
    again = step(record, seen(idle, replace(second, idle_s=640.0)), BY_NAME, NOW + 700)
    assert (again.generation, again.why_again) == (2, "hangs: none of its processes has done anything for 601 s")
    assert again.history.failures, "which counts for `attempts`"
    ended = replace(second, state="done", exit_code=0)
    assert step(record, seen(idle, ended), BY_NAME, NOW + 700).generation == 2, "it waits for one that has ended"


def test_a_group_that_fails_by_itself_fails_the_job_or_is_retried() -> None:
    died = view(("worker/0", "failed", 3), ("worker/1", "stopped", 143))
    over = step(torch(), died, BY_NAME, NOW)
    assert (over.state, over.exit_code) == ("failed", 3)
    retried = step(torch(retries=1), died, BY_NAME, NOW)
    assert (retried.state, retried.generation, retried.retries_used) == ("recovering", 2, 1)
    again = step(step(retried, ready(2), BY_NAME, NOW), ready(2), BY_NAME, NOW)
    died = view(("worker/0", "failed", 3), ("worker/1", "stopped", 143), generation=2, held=2)
    assert step(again, died, BY_NAME, NOW).state == "failed"


def test_a_group_that_is_killed_again_and_again_gives_up() -> None:
    record = torch()
    now = NOW
    for generation in range(1, 7):
        died = view(("worker/0", "failed", 137), ("worker/1", "stopped", 143), generation=generation, held=generation)
        record = step(record, died, BY_NAME, now)
        now += 60.0
        record = step(record, ready(generation + 1), BY_NAME, now)
    assert (record.state, record.exit_code) == ("failed", 1)
    assert "failed 6 times" in record.reason


def test_a_process_that_moves_to_another_host_needs_a_new_meeting_place() -> None:
    fit = view(("worker/0", "running", None), ("worker/1", "running", None))
    moved = replace(fit, hosts={**HOSTS, "worker/1": "c"})
    assert step(torch(), moved, BY_NAME, NOW).generation == 2


AWAY = {**BY_NAME, "worker/0": replace(TASKS[1], state="lost", host="a")}


def test_an_elastic_group_goes_on_with_fewer_and_takes_more_when_they_come() -> None:
    record = torch(min_workers=1)
    both = view(("worker/0", "running", None), ("worker/1", "running", None))
    assert step(record, both, BY_NAME, NOW + 60) == replace(step(record, both, BY_NAME, NOW + 61))
    lost = step(record, view(("worker/1", "running", None)), AWAY, NOW + 61)
    assert (lost.generation, lost.released, lost.history) == (2, False, record.history)
    alone = step(lost, view(("worker/1", "stopped", None), generation=1, held=2), AWAY, NOW + 62)
    assert alone.released
    assert [(member.name, member.addresses) for member in alone.members] == [("worker/1", ("b:1002",))]
    one = view(("worker/1", "running", None), generation=2, held=2)
    alone = step(alone, one, AWAY, NOW + 63)
    assert (alone.state, alone.generation) == ("running", 2)
    assert alone.reason == "goes on with 1 of 2 processes"

    back = view(("worker/0", "stopped", None), ("worker/1", "running", None), generation=2, held=2)
    assert step(alone, back, BY_NAME, NOW + 64).generation == 2, "not at once: it has only begun"
    grown = step(alone, back, BY_NAME, NOW + 120)
    assert (grown.generation, grown.why_again) == (3, "worker/0 can take part")
    assert len(step(grown, ready(3), BY_NAME, NOW + 121).members) == 2

    over = step(alone, view(("worker/1", "done", 0), generation=2, held=2), AWAY, NOW + 70)
    assert over.state == "succeeded", "nobody waits for one that takes no part"


def test_processes_that_start_alone_go_on_without_one_whose_host_is_away() -> None:
    record = running(framework="command", min_workers=1, success=None)
    gone = {**BY_NAME, "worker/1": TaskStatus("worker", 1, "lost")}
    alone = step(record, view(("worker/0", "running", None)), gone, NOW + 1)
    assert (alone.state, alone.reason) == ("running", "goes on with 1 of 2 processes")
    over = step(alone, view(("worker/0", "done", 0)), gone, NOW + 2)
    assert (over.state, over.reason) == ("succeeded", "without worker/1, whose hosts are away")
    chief = {**BY_NAME, "worker/0": TaskStatus("worker", 0, "lost")}
    waits = step(record, view(("worker/1", "done", 0)), chief, NOW + 2)
    assert waits.state == "recovering", "the chief is waited for"


def test_an_elastic_group_waits_below_its_minimum_and_a_fixed_one_for_all() -> None:
    for options in ({}, {"min_workers": 2}):
        lost = step(torch(**options), view(("worker/1", "running", None)), AWAY, NOW + 61)
        assert lost.generation == 2
        waits = step(lost, view(("worker/1", "stopped", None), generation=1, held=2), AWAY, NOW + 90)
        assert (waits.released, waits.state) == (False, "recovering")


def test_cancelling_beats_a_retry() -> None:
    dying = step(torch(retries=3), view(("worker/0", "failed", 3), ("worker/1", "running", None)), BY_NAME, NOW)
    over = step(cancel(dying, 1.0), view(("worker/0", "failed", 3), ("worker/1", "stopped", 143)), BY_NAME, NOW)
    assert over.state == "cancelled"


# What decides -------------------------------------------------------------------------------------------------------


def test_the_chief_alone_may_decide() -> None:
    done = view(("worker/0", "done", 0), ("worker/1", "running", None))
    record = step(running(success="chief"), done, BY_NAME, NOW)
    assert record.ending is None, "others may end by themselves"
    assert step(record, done, BY_NAME, NOW + FINISH_S - 1).ending is None
    record = step(record, done, BY_NAME, NOW + FINISH_S)
    assert record.ending is not None
    assert record.ending.state == "succeeded"
    over = step(record, view(("worker/0", "done", 0), ("worker/1", "stopped", 143)), BY_NAME, NOW)
    assert (over.state, over.exit_code) == ("succeeded", 0)


def test_the_chief_decides_by_default_and_later_failures_of_others_do_not_count() -> None:
    done = view(("worker/0", "done", 0), ("worker/1", "running", None))
    record = step(running(success=None), done, BY_NAME, NOW)
    over = step(record, view(("worker/0", "done", 0), ("worker/1", "failed", 9)), BY_NAME, NOW + 1)
    assert (over.state, over.exit_code) == ("succeeded", 0), "nobody is left who could end by itself"


def test_nobody_waits_for_a_chief_that_has_ended_when_the_variables_are_lost() -> None:
    done = view(("worker/0", "done", 0), ("worker/1", "running", None))
    record = step(running(), done, BY_NAME, NOW)
    assert step(record, done, BY_NAME, NOW + 3600).ending is None, "it may work still"
    again = {**BY_NAME, "ps/0": replace(TASKS[0], incarnation=7)}
    record = step(record, done, again, NOW + 1)
    assert record.ending is not None
    assert record.ending.state == "failed"
    assert "ps/0 was lost after the chief had ended" in record.ending.reason


def test_an_end_nobody_saw_is_no_success() -> None:
    unseen = view(("worker/0", "done", 0), ("worker/1", "done", None))
    assert not step(running(), unseen, BY_NAME, NOW).is_final
    former = view(("worker/0", "done", 0), ("worker/1", "done", 0), generation=0)
    assert not step(running(), former, BY_NAME, NOW).is_final


@pytest.mark.parametrize(("source", "code"), [(None, 5), ("chief", 143), ("worker/1", 5)])
def test_whose_exit_code_counts(source: str | None, code: int) -> None:
    over = step(
        running(exit_code_from=source), view(("worker/0", "stopped", 143), ("worker/1", "failed", 5)), BY_NAME, NOW
    )
    assert (over.state, over.exit_code) == ("failed", code)


def test_less_patience_counts() -> None:
    record = cancel(cancel(running(), 10.0), 0.0)
    assert record.grace_s == 0.0
    assert cancel(record, 30.0).grace_s == 0.0
