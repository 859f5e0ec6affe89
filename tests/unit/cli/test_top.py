"""What `top` makes of two looks at a cluster."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from dtfctl.cli._screen import Screen
from dtfctl.cli._top import Sampler
from dtfctl.launcher.messages.looks import Gpu, Inspection
from dtfctl.launcher.model import ClusterStatus, HostStatus, JobStatus, Progress
from dtfctl.launcher.operator.doctor import Answer
from tests.doubles.launcher import status, task


class Looked:
    """A cluster that is one status after the other."""

    def __init__(self, *states: ClusterStatus) -> None:
        self.states = list(states)

    def status(self) -> ClusterStatus:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def inspect(self, host: str) -> Answer:
        gpu = Gpu(index=0, name="H", busy_percent=50, memory_used_bytes=2**30, memory_bytes=2**31)
        return Answer(Inspection(gpus=(gpu,)), 0.0, 0.0)


def job(step: int, at: float, **changes: Any) -> JobStatus:
    now = time.time()
    progress = Progress(step, 100, {"loss": 0.5}, now + at)
    return JobStatus("j-1", "j", "running", "between-graph", "j.py", started=now - 10, progress=progress, **changes)


def test_rates_are_between_reports_not_between_looks() -> None:
    first = status(task("worker/0", steps=100, uptime_s=10.0), jobs=[job(10, 0.0)])
    second = status(task("worker/0", steps=160, uptime_s=12.0), jobs=[job(30, 4.0)])
    sampler = Sampler(Looked(first, first, second, second), "all")  # type: ignore[arg-type]
    assert sampler.take().tasks[0].steps_per_s is None
    assert sampler.take().tasks[0].steps_per_s is None
    for _ in range(2):
        picture = sampler.take()
        assert picture.tasks[0].steps_per_s == 30.0
        assert abs((picture.jobs[0].steps_per_s or 0) - 5.0) < 0.5
    assert picture.jobs[0].remaining_s is not None and picture.jobs[0].remaining_s > 0


def test_a_restart_begins_a_new_count() -> None:
    first = status(task("worker/0", steps=100, uptime_s=10.0))
    second = status(task("worker/0", steps=3, uptime_s=1.0, incarnation=2))
    sampler = Sampler(Looked(first, second), "worker")  # type: ignore[arg-type]
    sampler.take()
    assert sampler.take().tasks[0].steps_per_s is None


def test_the_tables_have_tasks_jobs_hosts_and_gpus() -> None:
    now = status(task("worker/0", silence_s=0.3, health="suspect"), jobs=[job(1, 0.0)])
    host = replace(now.hosts[0], gpus=1)
    silent = HostStatus("node2", "down")
    sampler = Sampler(Looked(replace(now, hosts=(host, silent))), "all")  # type: ignore[arg-type]
    text = "\n".join(sampler.take().lines(Screen(no_color=True)))
    for words in (
        "worker/0  suspect",
        "0.3s",
        "j-1",
        "step 1/100",
        "node2      down",
        "localhost/0  H",
        "50%",
        "#####.....",
    ):
        assert words in text, text
