"""The life of a job, from reports that the test makes up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from dtfctl.launcher.agent.contract import ClientReport
from dtfctl.launcher.controller.jobs import (
    JobRecord,
    JobView,
    cancel,
    client_tasks,
    next_to_start,
    start,
    step,
)
from dtfctl.launcher.model import JobRequest, TaskState, TaskStatus

NOW = 1000.0
TASKS = [TaskStatus(job, index, "running") for job, index in (("ps", 0), ("worker", 0), ("worker", 1))]
BY_NAME = {task.name: task for task in TASKS}


def job(job_id: str = "j-1", **request: object) -> JobRecord:
    return JobRecord(job_id, replace(JobRequest("train.py"), **request), "", "", "", NOW)


def running(**request: object) -> JobRecord:
    return start(job(**request), TASKS, NOW)


def view(*clients: tuple[str, TaskState, int | None]) -> JobView:
    reports = {}
    for name, state, code in clients:
        task, _, index = name.partition("/")
        reports[name] = ClientReport("j-1", task, int(index), state, exit_code=code)
    return JobView({"j-1": reports})


def test_between_graph_runs_beside_every_worker_with_the_chief_first() -> None:
    tasks = [*TASKS, TaskStatus("chief", 0, "running"), TaskStatus("evaluator", 0, "running")]
    assert client_tasks(JobRequest("x"), tasks) == ("chief/0", "worker/0", "worker/1", "evaluator/0")
    assert client_tasks(JobRequest("x", replication="in-graph"), tasks) == ("chief/0",)


def test_a_job_waits_for_the_tasks_and_says_for_which() -> None:
    waiting = start(job(), [replace(TASKS[0], state="pending"), *TASKS[1:]], NOW)
    assert (waiting.state, waiting.reason) == ("queued", "waits for ps/0")


def test_a_cluster_without_workers_cannot_run_a_job() -> None:
    assert "no worker" in start(job(), TASKS[:1], NOW).reason


def test_one_job_at_a_time_by_priority_then_age() -> None:
    queue = [replace(job("a"), seq=1), replace(job("b", priority=5), seq=2), replace(job("c", priority=5), seq=3)]
    assert next_to_start(queue) is queue[1]
    busy = replace(running(), seq=4)
    assert next_to_start([*queue, busy]) is None
    assert next_to_start([*queue, replace(busy, state="succeeded")]) is queue[1]


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


def test_a_crashed_task_is_named_with_its_error() -> None:
    crashed = {**BY_NAME, "ps/0": replace(TASKS[0], state="crashed", last_error="exit code 9")}
    clients = view(("worker/0", "running", None), ("worker/1", "running", None))
    assert step(running(), clients, crashed, NOW).reason == "ps/0 is crashed: exit code 9"


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
