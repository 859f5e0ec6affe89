"""The life of a job, as pure functions over what agents report about its processes.

    queued -> running <-> recovering -> succeeded | failed | cancelled

A job runs one process beside each worker (between-graph) or a single one (in-graph); all of them must exit 0. As soon
as the outcome is decided (`ending`), the other processes are told to stop; the job is final when none is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from dtfctl.launcher.agent.contract import ClientReport
from dtfctl.launcher.agent.lifecycle import ALIVE
from dtfctl.launcher.model import TERMINAL_JOB_STATES, ClientStatus, JobRequest, JobState, TaskStatus

CANCELLED_EXIT = 143
"""What a shell reports for a process ended by SIGTERM."""
CLIENT_JOBS = ("chief", "worker", "evaluator")
FINAL_CLIENT_STATES = frozenset({"done", "failed", "crashed", "stopped"})


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome of a job whose processes have not all ended yet."""

    state: Literal["succeeded", "failed", "cancelled"]
    exit_code: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """All that is stored about a job. Times are wall-clock."""

    id: str
    request: JobRequest
    script: str
    """The shipped copy."""
    folder: str
    checkpoint_dir: str
    submitted: float
    state: JobState = "queued"
    seq: int = 0
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    reason: str = ""
    tasks: tuple[str, ...] = ()
    """The tasks beside which its processes run, the chief's first; set when it starts."""
    ending: Ending | None = None
    grace_s: float = 10.0
    clients: tuple[ClientStatus, ...] = ()
    """As last seen; complete once the job is final."""

    @property
    def is_final(self) -> bool:
        return self.state in TERMINAL_JOB_STATES

    @property
    def is_active(self) -> bool:
        """Its processes run, or have to be ended."""
        return bool(self.tasks) and not self.is_final


@dataclass(frozen=True, slots=True)
class JobView:
    """What the controller knows about the processes of all jobs."""

    clients: Mapping[str, Mapping[str, ClientReport]] = field(default_factory=dict)
    """Job id to task name to report."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Task name to host."""


def client_tasks(request: JobRequest, tasks: Sequence[TaskStatus]) -> tuple[str, ...]:
    """Where the processes of a job run, the chief's first; empty when the cluster has no worker."""
    groups: dict[str, list[str]] = {job: [] for job in CLIENT_JOBS}
    for task in tasks:
        if task.job in groups:
            groups[task.job].append(task.name)
    chosen = [name for job in CLIENT_JOBS for name in groups[job]]
    return tuple(chosen[:1] if request.replication == "in-graph" else chosen)


def next_to_start(jobs: Sequence[JobRecord]) -> JobRecord | None:
    """The job whose turn it is: one at a time, by priority, then by age."""
    if any(job.is_active for job in jobs):
        return None
    queued = [job for job in jobs if job.state == "queued" and job.ending is None]
    return min(queued, key=lambda job: (-job.request.priority, job.seq), default=None)


def start(job: JobRecord, tasks: Sequence[TaskStatus], now: float) -> JobRecord:
    """Put the job into `running`, or leave it queued with the reason it waits."""
    wanted = client_tasks(job.request, tasks)
    if not wanted:
        return replace(job, reason="the cluster has no worker, chief or evaluator to run it on")
    waiting = [task.name for task in tasks if task.state != "running"]
    if waiting:
        return replace(job, reason=f"waits for {', '.join(waiting[:5])}" + (" ..." if len(waiting) > 5 else ""))
    return replace(job, state="running", started=now, tasks=wanted, reason="")


def step(job: JobRecord, view: JobView, tasks: Mapping[str, TaskStatus], now: float) -> JobRecord:
    """The job after what has been seen. Final jobs never change."""
    if job.is_final:
        return job
    if not job.tasks:
        return job if job.ending is None else _final(job, job.ending, now)
    reports = view.clients.get(job.id, {})
    clients = tuple(_client_status(name, reports.get(name), view.hosts.get(name, "")) for name in job.tasks)
    job = replace(job, clients=clients)
    if job.ending is None:
        job = replace(job, ending=_outcome(job, clients, now))
    if job.ending is not None:
        seen = all(name in reports for name in job.tasks)
        alive = any(client.state in ALIVE for client in clients)
        return _final(job, job.ending, now) if seen and not alive else job
    trouble = _trouble(clients, tasks)
    return replace(job, state="recovering" if trouble else "running", reason=trouble)


def cancel(job: JobRecord, grace_s: float, reason: str = "cancelled on request") -> JobRecord:
    if job.is_final or job.ending is not None:
        return job
    return replace(job, ending=Ending("cancelled", CANCELLED_EXIT, reason), grace_s=grace_s)


def _outcome(job: JobRecord, clients: Sequence[ClientStatus], now: float) -> Ending | None:
    bad = [client for client in clients if client.state in ("failed", "crashed")]
    if bad:
        worst = bad[0]  # the chief is first
        code = worst.exit_code or 1
        return Ending("failed", code, f"{worst.name}: {worst.last_error or f'exit code {code}'}")
    if clients and all(client.state == "done" for client in clients):
        return Ending("succeeded", 0)
    limit = job.request.max_time_s
    if limit is not None and job.started is not None and now - job.started > limit:
        return Ending("failed", 124, f"ran longer than its limit of {limit:.0f} s")
    return None


def _trouble(clients: Sequence[ClientStatus], tasks: Mapping[str, TaskStatus]) -> str:
    down = [task for task in tasks.values() if task.state != "running"]
    for task in down:
        if task.state in ("crashed", "failed"):
            return f"{task.name} is {task.state}: {task.last_error}"
    parts = [f"{task.name} is {task.state}" for task in down]
    parts += [
        f"process of {c.name} starts again ({c.last_error})" for c in clients if c.state == "pending" and c.restarts
    ]
    return "; ".join(parts[:4])


def _final(job: JobRecord, ending: Ending, now: float) -> JobRecord:
    return replace(job, state=ending.state, exit_code=ending.exit_code, reason=ending.reason, ended=now)


def _client_status(name: str, report: ClientReport | None, host: str) -> ClientStatus:
    if report is None:
        return ClientStatus(name, host, "pending")
    return ClientStatus(
        name=name,
        host=host,
        state=report.state,
        pid=report.pid,
        exit_code=report.exit_code,
        restarts=report.restarts,
        last_error=report.last_error,
        last_lines=report.last_lines,
        progress=report.progress,
    )
