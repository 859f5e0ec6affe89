"""Which job gets which tasks, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from dtfctl.launcher.controller.decisions.gpu_room import GpuRoom
from dtfctl.launcher.controller.decisions.job_queue import check, schedule
from dtfctl.launcher.controller.state.job_lifecycle import JobRecord
from dtfctl.launcher.errors import Conflict, NoSuchTask, UsageError
from dtfctl.launcher.model import JobRequest, TaskStatus

NOW = 1000.0
TASKS = [TaskStatus("ps", i, "running") for i in range(2)] + [TaskStatus("worker", i, "running") for i in range(4)]


def job(name: str, seq: int = 0, **request: object) -> JobRecord:
    return JobRecord(name, replace(JobRequest("train.py"), **request), "", "", "", NOW, seq=seq)


def run(*jobs: JobRecord, tasks: list[TaskStatus] = TASKS, minimum: dict[str, int] | None = None) -> list[JobRecord]:
    return schedule(jobs, tasks, minimum or {}, NOW)


def own(record: JobRecord) -> list[str]:
    return [placed.task for placed in record.placed if placed.role != "ps"]


def test_by_default_a_job_has_all_tasks_to_itself_the_chief_first() -> None:
    tasks = [*TASKS, TaskStatus("chief", 0, "running"), TaskStatus("evaluator", 0, "running")]
    first, second = run(job("a", 1), job("b", 2), tasks=tasks)
    assert own(first) == ["chief/0", "worker/0", "worker/1", "worker/2", "worker/3", "evaluator/0"]
    assert first.processes[0].name == "chief/0"
    assert [client.name for client in first.clients] == [placed.name for placed in first.processes]
    assert (second.state, second.reason) == ("queued", "waits for its turn after a")


def test_in_graph_runs_one_process_and_still_has_all_workers() -> None:
    (record,) = run(job("a", replication="in-graph"))
    assert [placed.name for placed in record.processes] == ["worker/0"]
    assert len(own(record)) == 4


def test_an_elastic_job_gets_the_workers_that_come_later() -> None:
    few = [task for task in TASKS if task.index < 2]
    job_before, fixed = run(job("a", replication="elastic", share=True), job("b", 1, share=True), tasks=few)
    coming = [*few, TaskStatus("worker", 2, "running"), TaskStatus("worker", 3, "starting")]
    grown, other = run(job_before, fixed, tasks=coming)
    assert [placed.name for placed in grown.processes] == ["worker/0", "worker/1", "worker/2"]
    assert [placed.name for placed in grown.placed if not placed.runs] == ["ps/0", "ps/1"]
    assert other == fixed, "whose program was told how many there are"
    assert run(grown, other, tasks=coming)[0] == grown
    (holder,) = run(job("h", 2, tasks="worker/2"), tasks=coming)
    for job_now in (job_before, replace(job_before, state="recovering")):
        assert own(run(job_now, holder, tasks=coming)[0]) == ["worker/0", "worker/1"]


def test_jobs_with_other_tasks_run_at_once_each_numbered_from_zero() -> None:
    first, second, third = run(job("a", 1, workers=2), job("b", 2, tasks="worker/2-3"), job("c", 3, workers=1))
    assert [(p.name, p.task) for p in second.placed] == [
        ("worker/0", "worker/2"),
        ("worker/1", "worker/3"),
        ("ps/0", "ps/0"),
        ("ps/1", "ps/1"),
    ]
    assert own(first) == ["worker/0", "worker/1"]
    assert third.state == "queued"


def on_hosts(*jobs: JobRecord, gpus: dict[str, int], each: int = 0) -> list[JobRecord]:
    tasks = [replace(task, host=f"h{task.index % 2}") for task in TASKS]
    return schedule(jobs, tasks, {}, NOW, gpus=GpuRoom(tasks, {"worker": each}, gpus))


def test_a_job_waits_for_gpus_that_others_have_and_says_so() -> None:
    two = {"h0": 1, "h1": 1}
    one = {"workers": 1, "gpus": 1}
    first, second, third, small = on_hosts(
        job("a", 1, **one), job("b", 2, **one), job("c", 3, **one), job("d", 4, workers=1), gpus=two
    )
    assert (own(first), own(second)) == (["worker/0"], ["worker/1"]), "where there is one left"
    assert (third.state, third.reason) == ("queued", "waits for 1 GPU on h0: it has 1, taken by a")
    assert own(small) == ["worker/3"], "which needs none"
    _, third = on_hosts(second, third, gpus=two)
    assert own(third) == ["worker/0"], "it has been given back"


def test_who_waits_for_gpus_is_not_passed_by_those_behind_it() -> None:
    first, large, small = on_hosts(
        job("a", 1, tasks="worker/0", gpus=1),
        job("b", 2, tasks="worker/2", gpus=2),
        job("c", 3, tasks="worker/1", gpus=1),
        gpus={"h0": 2, "h1": 1},
    )
    assert large.reason == "waits for 1 GPU on h0: it has 2, taken by a"
    assert small.state == "running", "on another host"
    _, large, small = on_hosts(first, large, job("d", 4, share=True, tasks="worker/2", gpus=1), gpus={"h0": 2})
    assert (large.state, small.state) == ("queued", "queued")


def test_gpus_of_slots_count_before_those_of_the_host() -> None:
    first, second = on_hosts(
        job("a", 1, tasks="worker/0", gpus=2), job("b", 2, tasks="worker/2", gpus=2), gpus={"h0": 3}, each=1
    )
    assert (first.state, second.reason) == ("running", "waits for 1 GPU on h0: it has 3, taken by a")


@pytest.mark.parametrize("framework", ["command", "torch"])
def test_no_job_waits_for_gpus_that_are_nowhere(framework: str) -> None:
    (record,) = on_hosts(job("a", workers=1, gpus=3, framework=framework), gpus={"h0": 2, "h1": 2})
    assert record.state == "running", "its start says how many there are"
    (record,) = on_hosts(job("a", workers=1, gpus=1, framework=framework), gpus={})
    assert record.state == "running", "no host has told yet"


def test_priority_then_age() -> None:
    low, old, young = run(job("low", 1), job("old", 2, priority=5), job("young", 3, priority=5))
    assert [low.state, old.state, young.state] == ["queued", "running", "queued"]


def test_a_waiting_job_keeps_its_tasks_from_those_behind_it() -> None:
    busy, big, small = run(job("busy", 1, tasks="worker/0"), job("big", 2), job("small", 3, workers=1))
    assert [busy.state, big.state, small.state] == ["running", "queued", "queued"]
    assert small.reason == "waits for its turn after busy, big"
    beside = run(busy, replace(big, request=replace(big.request, tasks="worker/0-1")), small)[2]
    assert (beside.state, own(beside)) == ("running", ["worker/2"])


def test_sharing_jobs_share_with_each_other_alone() -> None:
    one, two, alone = run(job("a", 1, share=True), job("b", 2, share=True), job("c", 3))
    assert [one.state, two.state, alone.state] == ["running", "running", "queued"]
    assert run(job("c", 1), job("a", 2, share=True))[1].state == "queued"


def test_free_workers_that_run_are_preferred() -> None:
    tasks = [replace(task, state="pending") if task.name == "worker/0" else task for task in TASKS]
    assert own(run(job("a", workers=2), tasks=tasks)[0]) == ["worker/1", "worker/2"]
    waits = run(job("a", workers=4), tasks=tasks)[0]
    assert (waits.state, waits.reason) == ("queued", "waits for worker/0")


def test_with_the_minimum_of_a_group_a_job_that_has_all_of_it_starts() -> None:
    tasks = [replace(task, state="lost") if task.name == "worker/3" else task for task in TASKS]
    assert run(job("a"), tasks=tasks, minimum={"worker": 3})[0].state == "running"
    assert run(job("a"), tasks=tasks, minimum={"worker": 4})[0].state == "queued"
    assert run(job("a", tasks="worker/2-3"), tasks=tasks, minimum={"worker": 1})[0].reason == "waits for worker/3"
    # A group of fixed size needs every host.
    assert run(job("a", framework="torch"), tasks=tasks, minimum={"worker": 3})[0].state == "queued"


def test_frameworks_that_bring_their_own_servers_do_not_need_the_clusters() -> None:
    tasks = [replace(task, state="crashed") for task in TASKS]
    assert run(job("a"), tasks=tasks)[0].state == "queued"
    (record,) = run(job("a", framework="tensorflow"), tasks=tasks)
    assert [p.name for p in record.processes] == ["worker/0", "worker/1", "worker/2", "worker/3", "ps/0", "ps/1"]
    assert [p.name for p in run(job("a", framework="torch"), tasks=tasks)[0].processes][-1] == "worker/3"


@pytest.mark.parametrize(
    ("request_", "error", "text"),
    [
        ({"tasks": "worker/9"}, NoSuchTask, "worker/9"),
        ({"tasks": "worker/0", "workers": 1}, UsageError, "exclude"),
        ({"tasks": "ps"}, UsageError, "names no worker"),
        ({"workers": 5}, Conflict, "wants 5 workers, the cluster has 4"),
        ({"framework": "torch", "replication": "in-graph"}, UsageError, "in-graph"),
        ({"framework": "torch", "replication": "elastic"}, UsageError, "run_elastic"),
        ({"workers": 2, "replication": "elastic"}, UsageError, "all workers"),
        ({"gpus": 1, "replication": "elastic"}, UsageError, "no GPUs"),
        ({"tf_config": "sparse"}, UsageError, "sparse"),
        ({"exit_code_from": "worker/7"}, UsageError, "names no process"),
        ({"framework": "command", "python": "/p"}, UsageError, "--python"),
    ],
)
def test_what_can_never_run_is_refused(request_: dict[str, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        check(replace(JobRequest("t.py"), **request_), TASKS)


REQUESTS = st.fixed_dictionaries(
    {
        "workers": st.sampled_from([None, None, 1, 2, 3]),
        "share": st.booleans(),
        "priority": st.integers(0, 2),
        "framework": st.sampled_from(["dtf", "torch", "tensorflow"]),
    }
)


@given(st.lists(REQUESTS, max_size=8), st.lists(st.integers(0, 7), max_size=8))
def test_whatever_is_submitted_and_ends_nobody_loses_its_tasks(
    requests: list[dict[str, object]], endings: list[int]
) -> None:
    jobs = run(*(job(f"j{number}", number, **request) for number, request in enumerate(requests)))
    for ending in [*endings, *range(len(jobs))]:
        users: dict[str, list[JobRecord]] = {}
        for record in jobs:
            for task in own(record) if record.is_active else ():
                users.setdefault(task, []).append(record)
        for found in users.values():
            assert len(found) == 1 or all(record.request.share for record in found)
        if ending < len(jobs) and jobs[ending].is_active:
            jobs[ending] = replace(jobs[ending], state="succeeded")
        jobs = run(*jobs)
        assert any(record.is_active for record in jobs) or not any(record.state == "queued" for record in jobs)
