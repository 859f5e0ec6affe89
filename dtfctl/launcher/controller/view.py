"""What `status` shows, made from the stored state and the agents' reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dtfctl.health.monitor import Monitor
from dtfctl.launcher.agent.contract import HostOrders, Report, TaskReport
from dtfctl.launcher.controller.jobs import JobRecord
from dtfctl.launcher.controller.link import AgentLink
from dtfctl.launcher.controller.store import TaskRow
from dtfctl.launcher.model import HostState, HostStatus, JobStatus, TaskState, TaskStatus
from dtfctl.launcher.providers.base import AgentEndpoint
from dtfctl.launcher.spec.model import ClusterSpec

SETTLED = frozenset({"running", "failed", "crashed", "stopped", "done"})


class Host:
    """What the controller knows about one host."""

    def __init__(self, link: AgentLink, monitor: Monitor) -> None:
        self.link = link
        self.monitor = monitor
        self.report: Report | None = None
        self.endpoint: AgentEndpoint | None = None
        self.state: HostState = "pending"
        self.last_error = ""
        self.orders: HostOrders | None = None


def task_statuses(rows: Sequence[TaskRow], hosts: Mapping[str, Host]) -> list[TaskStatus]:
    found: dict[str, TaskReport] = {}
    for host in hosts.values():
        for report in host.report.tasks if host.report else ():
            found[report.name] = report
    return [task_status(row, hosts.get(row.host), found.get(row.name)) for row in rows]


def task_status(row: TaskRow, host: Host | None, report: TaskReport | None) -> TaskStatus:
    """What is reported, put against what was ordered meanwhile: an order that is on its way is not `running`."""
    if report is None:
        return TaskStatus(row.job, row.index, "pending", host=row.host, incarnation=row.incarnation)
    state: TaskState = report.state
    error = report.last_error
    if row.restart_request > report.restart_handled and state not in ("stopping", "starting"):
        state = "stopping" if state == "running" else "pending"
    if not row.run and state == "running":
        state = "stopping"
    if row.run and state == "stopped":
        state = "pending"
    if host is not None and host.state == "down":
        state, error = "lost", host.last_error or "its host is down"
    return TaskStatus(
        job=row.job,
        index=row.index,
        state=state,
        health=report.health,
        host=row.host,
        pid=report.pid,
        address=report.address,
        incarnation=report.incarnation,
        restarts=report.restarts,
        uptime_s=report.uptime_s,
        cpu_percent=report.cpu_percent,
        rss_bytes=report.rss_bytes,
        steps=report.steps,
        retry_in_s=report.retry_in_s,
        exit_code=report.exit_code,
        last_error=error,
        last_lines=report.last_lines,
    )


def host_status(name: str, host: Host, tasks: int) -> HostStatus:
    report = host.report
    if report is None:
        return HostStatus(name, host.state, tasks=tasks, last_error=host.last_error)
    return HostStatus(
        name=name,
        state=host.state,
        agent_pid=report.pid,
        agent_address=host.endpoint.address if host.endpoint else "",
        cores=report.cores,
        load=report.load,
        memory_bytes=report.memory_bytes,
        memory_free_bytes=report.memory_free_bytes,
        disk_free_bytes=report.disk_free_bytes,
        gpus=report.gpus,
        tasks=tasks,
        last_error=host.last_error,
    )


def job_statuses(wanted: Sequence[JobRecord], every: Sequence[JobRecord]) -> list[JobStatus]:
    """`wanted`, with their places in the queue that `every` job makes."""
    queue = sorted((job for job in every if job.state == "queued"), key=lambda j: (-j.request.priority, j.seq))
    places = {job.id: place for place, job in enumerate(queue, start=1)}
    return [job_status(job, places.get(job.id)) for job in wanted]


def job_status(job: JobRecord, position: int | None) -> JobStatus:
    chief = job.clients[0] if job.clients else None
    return JobStatus(
        id=job.id,
        name=job.request.name or Path(job.request.script).stem,
        state=job.state,
        replication=job.request.replication,
        script=job.request.script,
        args=job.request.args,
        submitted=job.submitted,
        started=job.started,
        ended=job.ended,
        exit_code=job.exit_code,
        reason=job.reason,
        restarts=sum(client.restarts for client in job.clients),
        checkpoint_dir=job.checkpoint_dir,
        position=position,
        clients=job.clients,
        progress=None if chief is None else chief.progress,
    )


def problems(hosts: Mapping[str, Host], tasks: Sequence[TaskStatus]) -> list[str]:
    """One sentence for each thing that a person may want to look at."""
    found = [
        f"host {name}: {host.last_error or 'its agent is silent'}"
        for name, host in sorted(hosts.items())
        if host.state in ("suspect", "down") or host.last_error
    ]
    for task in tasks:
        if task.state in ("failed", "crashed", "lost"):
            found.append(f"{task.name} is {task.state}: {task.last_error}")
        elif task.state == "pending" and task.retry_in_s is not None:
            found.append(f"{task.name} starts again in {task.retry_in_s:.1f} s: {task.last_error}")
        elif task.health in ("suspect", "down"):
            found.append(f"{task.name} is {task.health}: its beats are late")
    return found


def is_usable(spec: ClusterSpec | None, tasks: Sequence[TaskStatus]) -> bool:
    """Whether at least `min` tasks of every group run."""
    if spec is None:
        return False
    return all(
        sum(task.job == job and task.state == "running" for task in tasks)
        >= (group.count if group.min is None else group.min)
        for job, group in spec.tasks.items()
    )
