"""Make what `status` shows, from the stored state and the agents' reports."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from dtfctl.launcher.controller.hosts.host import Host
from dtfctl.launcher.controller.state.job_lifecycle import JobRecord
from dtfctl.launcher.controller.state.store import HostRow, TaskRow
from dtfctl.launcher.messages.reports import TaskReport
from dtfctl.launcher.model import (
    GAVE_UP,
    SETTLED,
    HostState,
    HostStatus,
    JobStatus,
    TaskState,
    TaskStatus,
)
from dtfctl.launcher.spec import elastic
from dtfctl.launcher.spec.grouping import grouped
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.values import replace

MOST_NAMED = 8


def task_statuses(rows: Sequence[TaskRow], hosts: Mapping[str, Host]) -> list[TaskStatus]:
    found = []
    for row in rows:
        host = hosts.get(row.host)
        found.append(task_status(row, host, None if host is None else host.tasks.get(row.name)))
    return found


def task_status(row: TaskRow, host: Host | None, report: TaskReport | None) -> TaskStatus:
    """Put what is reported against what was ordered meanwhile: an order that is on its way is not `running`."""
    is_lost = host is not None and host.state == "down"
    why_lost = f"its host {row.host} is lost: {(host.last_error if host else '') or 'its agent is silent'}"
    if report is None:
        state: TaskState = "stopped" if row.held else "lost" if is_lost else "pending"
        error = why_lost if state == "lost" else ""
        return TaskStatus(row.job, row.index, state, host=row.host, incarnation=row.incarnation, last_error=error)
    state = report.status.state
    error = report.status.last_error
    if row.restart_request > report.restart_handled and state not in ("stopping", "starting"):
        state = "stopping" if state == "running" else "pending"
    if not row.is_wanted and not row.move_to and state == "running":
        state = "stopping"
    if row.is_wanted and state == "stopped":
        state = "pending"
    if row.move_to and state in ("running", "starting"):
        state, error = "stopping", f"moves to {row.move_to}"
    if is_lost and not (state in GAVE_UP and row.is_final) and state != "stopped":
        state, error = "lost", why_lost
    return replace(report.status, state=state, host=row.host, last_error=error)


def host_state(host: Host, row: HostRow) -> HostState:
    """Name a host's state as people see it: that it is set aside counts for more than whether it answers."""
    if row.drained:
        return "drained"
    return "quarantined" if row.quarantined_until is not None else host.state


def host_status(name: str, host: Host, row: HostRow, tasks: int, now: float, node: str = "") -> HostStatus:
    report = host.report
    failure = host.failure or host.outdated or host.unshared
    cause = failure.cause if failure is not None else ""
    where = failure.where if failure is not None else ""
    note = row.why
    if row.quarantined_until is not None and row.quarantined_until > now:
        note = f"for {row.quarantined_until - now:.0f} s more: {row.why}"
    status = HostStatus(
        name,
        host_state(host, row),
        tasks=tasks,
        last_error=host.last_error,
        cause=cause,
        where=where,
        stage=host.stage,
        note=note,
        node=node,
    )
    if report is None:
        return status
    return replace(
        status,
        agent_pid=report.pid,
        agent_address=host.endpoint.address if host.endpoint else "",
        through=host.endpoint.through if host.endpoint else "",
        faults=report.faults,
        cores=report.cores,
        load=report.load,
        memory_bytes=report.memory_bytes,
        memory_free_bytes=report.memory_free_bytes,
        disk_free_bytes=report.disk_free_bytes,
        gpus=report.gpus,
    )


def job_statuses(wanted: Sequence[JobRecord], every: Sequence[JobRecord]) -> list[JobStatus]:
    """Make the statuses of `wanted`, with their places in the queue that `every` job makes."""
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
        restarts=job.restarts,
        checkpoint_dir=job.checkpoint_dir,
        position=position,
        clients=job.clients,
        progress=None if chief is None else chief.progress,
        framework=job.request.framework,
        priority=job.request.priority,
        tasks=tuple(placed.task for placed in job.placed if placed.runs or placed.role != "ps"),
        starts=job.generation if job.placed else 0,
        cpus=job.request.cpus,
        memory=job.request.memory,
        gpus=job.request.gpus,
    )


def host_problems(hosts: Mapping[str, Host], away: Collection[str] = ()) -> list[str]:
    """Write a line for each trouble that hosts have; that one of `away` is not there is none."""
    return grouped(
        (name, host.last_error or "its agent is silent", host.failure.where if host.failure is not None else "")
        for name, host in sorted(hosts.items())
        if name not in away and (host.state in ("suspect", "down") or host.last_error)
    )


def away_hosts(spec: ClusterSpec | None, hosts: Mapping[str, Host]) -> dict[str, str]:
    """Find hosts that are away and need not be there, each with its group."""
    return {} if spec is None else elastic.away(spec, there(hosts))


def there(hosts: Mapping[str, Host]) -> set[str]:
    """Choose the hosts whose agents are heard; one that is only suspect is not away yet."""
    return {name for name, host in hosts.items() if host.state in ("up", "suspect")}


def away_notes(spec: ClusterSpec | None, hosts: Mapping[str, Host]) -> list[str]:
    """Write for each host group how many of its hosts are away, and which."""
    found: dict[str, list[str]] = {}
    for name, group in away_hosts(spec, hosts).items():
        found.setdefault(group, []).append(name)
    lines = []
    for group, names in found.items():
        assert spec is not None
        every = spec.host_groups[group]
        shown = ", ".join(names[:MOST_NAMED]) + (", ..." if len(names) > MOST_NAMED else "")
        known = [hosts[name] for name in names if name in hosts]
        why = next((why for host in known if (why := host.last_error or host.stage)), "")
        count = len(every.names) - len(names)
        lines.append(
            f"{count} of {len(every.names)} hosts, at least {every.min} are needed; away: {shown}"
            + (f" ({why})" if why else "")
        )
    return lines


def lacking_problems(spec: ClusterSpec | None, hosts: Mapping[str, Host]) -> list[str]:
    """Write a line for each host group that has fewer hosts than it needs."""
    lacking = {} if spec is None else elastic.lacking(spec, there(hosts))
    return [
        f"{count} of the hosts `{group}`, at least {least} are needed: jobs wait for more"
        for group, (count, least) in lacking.items()
    ]


def _outdated(hosts: Mapping[str, Host]) -> list[str]:
    return grouped(
        (name, problem.message, problem.where)
        for name, host in sorted(hosts.items())
        for problem in (host.outdated, host.unshared)
        if problem is not None
    )


def problems(
    hosts: Mapping[str, Host],
    rows: Mapping[str, HostRow],
    tasks: Sequence[TaskStatus],
    spec: ClusterSpec | None = None,
) -> list[str]:
    """Write one sentence for each thing that a person may want to look at."""
    away = away_hosts(spec, hosts)
    found = host_problems(hosts, away) + _outdated(hosts) + lacking_problems(spec, hosts)
    found += [
        f"host {name} is {host_state(hosts[name], row)}: {row.why}; `dtfctl hosts release {name}` ends that"
        for name, row in sorted(rows.items())
        if name in hosts and row.quarantined_until is not None
    ]
    for task in tasks:
        host = hosts.get(task.host)
        if task.state == "lost" and (task.host in away or (host is not None and host.last_error)):
            continue  # its host is named above, with the reason
        if task.state in ("failed", "crashed", "lost"):
            found.append(f"{task.name} is {task.state}: {task.last_error}")
        elif task.state == "pending" and task.retry_in_s is not None:
            found.append(f"{task.name} starts again in {task.retry_in_s:.1f} s: {task.last_error}")
        elif task.health in ("suspect", "down"):
            found.append(
                f"{task.name} is {task.health}: no beats, or its server hangs; `dtfctl why {task.name}` says which"
            )
    return found


def is_settled(tasks: Sequence[TaskStatus], hosts: Mapping[str, Host], spec: ClusterSpec) -> bool:
    """Tell whether every task runs, has failed for good, or cannot start because its host cannot be used.

    Hosts that nobody has lent yet are waited for as long as too few are there.
    """
    lacking = elastic.lacking(spec, there(hosts))
    queued = any(host.failure is not None and host.failure.cause == "queued" for host in hosts.values())
    if (lacking and queued) or any(host.refreshing for host in hosts.values()):
        return False
    return all(
        task.state in SETTLED or ((host := hosts.get(task.host)) is not None and host.failure is not None)
        for task in tasks
    )


def is_usable(spec: ClusterSpec | None, tasks: Sequence[TaskStatus]) -> bool:
    """Tell whether at least `min` tasks of every group run."""
    if spec is None:
        return False
    return all(
        sum(task.job == job and task.state == "running" for task in tasks) >= least
        for job, least in elastic.least_tasks(spec).items()
    )
