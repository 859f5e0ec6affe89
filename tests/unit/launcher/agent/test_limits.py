"""Which cores and GPUs a job's process gets among others, and how limits are shown."""

from __future__ import annotations

import pytest

from dtfctl.cli._tables import limit_words
from dtfctl.health.restart import Ending, GiveUp, RestartHistory, RestartPolicy, decide
from dtfctl.launcher.agent.units import resources
from dtfctl.launcher.agent.units.host_units import HostUnits
from dtfctl.launcher.agent.units.job_unit import JobUnit
from dtfctl.launcher.agent.units.lifecycle import Record
from dtfctl.launcher.agent.units.task_unit import TaskUnit
from dtfctl.launcher.agent.units.unit import Unit
from dtfctl.launcher.controller.state import job_lifecycle
from dtfctl.launcher.messages.orders import ClientOrder, GpuView, TaskOrder
from dtfctl.launcher.messages.reports import ClientReport
from dtfctl.launcher.model import ClientStatus, JobRequest, JobStatus, TaskStatus


def task(state: HostUnits, name: str, *gpus: int) -> TaskUnit:
    role, _, index = name.partition("/")
    unit = state.tasks[name] = TaskUnit(name, Record(state="running", gpus=gpus), state)
    unit.order = TaskOrder(role, int(index), gpus=len(gpus))
    return unit


def client(
    state: HostUnits,
    slot: str,
    count: int | None,
    *,
    gpus: tuple[int, ...] = (),
    view: GpuView = "own",
    cpus: float = 0,
) -> JobUnit:
    record = Record(state="running" if gpus else "pending", gpus=gpus)
    unit = state.jobs[f"job:a:{slot}"] = JobUnit(f"job:a:{slot}", record, state)
    unit.order = ClientOrder("a", "worker", 0, slot=slot, gpu_count=count, gpus=view, cpus=cpus, generation=3)
    return unit


def given(unit: Unit) -> Record:
    return unit.claim(unit.record)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four GPUs and four cores."""
    monkeypatch.setattr(resources, "gpu_count", lambda: 4)
    monkeypatch.setattr(resources, "allowed_cores", lambda: [0, 1, 2, 3])


def test_a_process_gets_its_slots_gpus_before_others(state: HostUnits) -> None:
    task(state, "worker/0", 2)
    task(state, "worker/1", 0)
    assert given(client(state, "worker/0", None)).gpus == (), "what its slot has, by its order"
    assert given(client(state, "worker/0", 1)).gpus == (2,)
    assert given(client(state, "worker/0", 3)).gpus == (2, 1, 3), "never those of another task"
    assert given(client(state, "worker/0", 0)).gpus == ()
    client(state, "worker/1", 2, gpus=(0, 1))
    assert given(client(state, "worker/0", 2)).gpus == (2, 3)


def test_gpus_that_are_not_there_fail_the_generation(state: HostUnits) -> None:
    task(state, "worker/0", 2)
    record = given(client(state, "worker/0", 2, view="host"))
    assert record.reason == "needs 2 GPUs, its slot has 1 for it", "a group sees the GPUs of its slots by their ranks"
    task(state, "worker/1", 0)
    record = given(client(state, "worker/0", 4))
    assert (record.state, record.restart_handled) == ("failed", 3)
    assert record.reason == "needs 4 GPUs, this host has 3 for it"


def test_gpus_that_another_job_has_are_waited_for_and_those_of_a_task_that_is_down_are_kept(state: HostUnits) -> None:
    task(state, "worker/0", 0)
    other = client(state, "worker/1", 3, gpus=(1, 2, 3))
    other.job_id = "b"
    process = client(state, "worker/0", 2)

    def waits_for() -> str:
        assert process.order is not None
        return resources.waits_for_gpus(process.order, state.tasks.values(), [other])

    assert waits_for() == "waits for 1 GPU, taken by b"
    other.record = Record(state="done", gpus=(1, 2, 3))
    assert waits_for() == ""
    assert given(process).gpus == (0, 1)
    down = task(state, "worker/2", 1, 2, 3)
    down.record = Record(state="failed", gpus=(1, 2, 3))
    assert waits_for() == "", "no waiting would help"
    assert given(process).reason == "needs 2 GPUs, this host has 1 for it"


def test_processes_are_kept_on_different_cores_while_there_are_any(state: HostUnits) -> None:
    first = client(state, "worker/0", None, cpus=1.5)
    first.record = given(first)
    assert first.record.cores == (0, 1)
    first.record = Record(state="running", cores=first.record.cores)
    assert given(client(state, "worker/1", None, cpus=2)).cores == (2, 3)
    assert given(client(state, "worker/1", None, cpus=3)).cores == (0, 2, 3)


def test_an_end_whose_cause_stays_is_final_whatever_the_rules() -> None:
    for policy in (RestartPolicy(), RestartPolicy(when="always"), RestartPolicy(limited=True, only_exit=(75,))):
        ending = Ending(137, signal=9, final=True, forced=True)
        _, decision = decide(policy, RestartHistory(), ran_s=1.0, ending=ending, now=1.0, rand=0.5)
        assert decision == GiveUp("failed", "")


def test_a_group_is_not_started_again_because_one_of_it_used_too_much() -> None:
    request = JobRequest("job.py", framework="torch")
    placed = (job_lifecycle.Placed("worker/0", "worker/0"),)
    job = job_lifecycle.JobRecord(
        "a", request, "", "", "", 0.0, state="running", placed=placed, released=True, generation=1
    )
    report = ClientReport("a", "worker", 0, "failed", exit_code=137, last_error="killed by SIGKILL", generation=1)
    view = job_lifecycle.JobView({"a": {"worker/0": report}})
    assert job_lifecycle.step(job, view, {}, 1.0).generation == 2, "killed from outside"
    hungry = ClientReport(
        "a", "worker", 0, "failed", exit_code=137, last_error="out of memory", generation=1, out_of_memory=True
    )
    after = job_lifecycle.step(job, job_lifecycle.JobView({"a": {"worker/0": hungry}}), {}, 1.0)
    assert (after.state, after.exit_code, after.reason) == ("failed", 137, "worker/0: out of memory")


def test_limits_are_shown_as_they_were_asked_for_or_else_as_they_are_held() -> None:
    job = JobStatus("a", "a", "running", "between-graph", "a.py")
    assert limit_words(job) == ""
    asked = JobStatus("a", "a", "running", "between-graph", "a.py", cpus=1.5, memory=200 << 20, gpus=2)
    assert limit_words(asked) == "1.5 cpus, 200MiB, 2 gpus"
    held = JobStatus("a", "a", "running", "between-graph", "a.py", clients=(
        ClientStatus("worker/0", "h", "running", limits="memory 300 MiB (control group)"),
    ))  # fmt: skip
    assert limit_words(held) == "memory 300 MiB"


def test_what_a_process_waits_for_before_its_first_start_is_the_jobs_reason_and_nothing_else_is() -> None:
    placed = (job_lifecycle.Placed("worker/0", "worker/0"),)
    job = job_lifecycle.JobRecord(
        "a",
        JobRequest("job.py"),
        "",
        "",
        "",
        0.0,
        state="running",
        placed=placed,
        released=True,
        generation=1,
    )
    tasks = {"worker/0": TaskStatus("worker", 0, "running")}

    def reason(report: ClientReport) -> str:
        return job_lifecycle.step(job, job_lifecycle.JobView({"a": {"worker/0": report}}), tasks, 1.0).reason

    waits = ClientReport("a", "worker", 0, "pending", last_error="its packages are being installed")
    assert reason(waits) == "worker/0: its packages are being installed"
    assert reason(ClientReport("a", "worker", 0, "stopped", last_error="stopped on request")) == ""
    assert reason(ClientReport("a", "worker", 0, "running", generation=1)) == ""
