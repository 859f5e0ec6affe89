"""Status, jobs and events as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtfctl.cli._format import age, clock, columns, duration, number, plural, size
from dtfctl.cli._screen import Screen
from dtfctl.launcher.model import (
    ClusterStatus,
    Event,
    HostStatus,
    JobStatus,
    LinkStatus,
    Progress,
    TaskStatus,
)
from dtfctl.launcher.operator.why import Explanation

MAX_JOBS = 5
_LAST_LINES = 5


def status_lines(
    status: ClusterStatus, tasks: Sequence[TaskStatus], screen: Screen, now: float, owner: str = ""
) -> list[str]:
    """Write the whole of `status`: the answer, tasks, jobs, hosts (wide), and what is wrong."""
    wide = screen.output == "wide"
    out = [headline(status, screen), *grant_lines(status, now), ""]
    out += task_table(tasks, screen, wide)
    shown = [job for job in status.jobs if not job.is_final]
    shown += [job for job in status.jobs if job.is_final][: max(0, MAX_JOBS - len(shown))]
    if shown:
        out += ["", *job_table(shown, screen, now, wide)]
    if wide:
        out += ["", *host_table(status.hosts, screen)]
        if ways := way_table(tasks, screen):
            out += ["", *ways]
        if status.links:
            out += ["", *link_table(status.links, screen, now)]
        controller = status.controller
        out += [
            "",
            (
                f"controller: pid {controller.pid}, {controller.address}, up {duration(controller.uptime_s)}, "
                f"start {controller.epoch}, dtfctl {controller.version}"
            ),
            *([f"owner: {owner}"] if owner else []),
        ]
    out += _troubles(status, tasks, screen)
    return out


def problem_lines(status: ClusterStatus, tasks: Sequence[TaskStatus], screen: Screen, now: float) -> list[str]:
    """`status --problems`: the answer, what is wrong, and the last words of tasks that failed."""
    return [headline(status, screen), *_troubles(status, tasks, screen)]


def headline(status: ClusterStatus, screen: Screen) -> str:
    """Write the first line: is it well, and what runs."""
    active = sum(not job.is_final for job in status.jobs)
    jobs = f", {plural(active, 'active job')}" if active else ""
    ready = f"{status.running}/{len(status.tasks)} tasks run"
    if status.healthy:
        return f"{status.name} is {screen.style('healthy', 'green')}: {ready}{jobs}"
    if whose := taken_by(status):
        return f"{status.name} is {screen.style('not yours any more', 'red')}: it belongs to {whose}"
    word = "degraded" if status.running else "down"
    trouble = f", {plural(len(status.problems), 'problem')}" if status.problems else ""
    return f"{status.name} is {screen.style(word, 'red')}: {ready}{jobs}{trouble}"


def taken_by(status: ClusterStatus) -> str:
    """Say who took the cluster over, by what its hosts answer; empty while tasks of it run for us."""
    if status.running:
        return ""
    said = (host.last_error.partition(" belongs to ")[2] for host in status.hosts if host.cause == "owner")
    return next((whose for whose in said if whose), "")


def task_table(tasks: Sequence[TaskStatus], screen: Screen, wide: bool) -> list[str]:
    """Write one line a task."""
    header = ["TASK", "STATE", "HOST", "UPTIME", "RESTARTS", "CPU", "MEMORY", "STEPS"]
    if wide:
        header += ["PID", "ADDRESS", "INCARNATION", "TRANSPORT", "BLAS"]
    spares = wide and any(task.spared_bytes for task in tasks)
    header += ["SPARED"] if spares else []
    rows = []
    for task in tasks:
        row = [
            task.name,
            _state(task),
            task.host or "-",
            duration(task.uptime_s) if task.state == "running" else "-",
            str(task.restarts),
            "-" if task.cpu_percent is None else f"{task.cpu_percent:.0f}%",
            size(task.rss_bytes),
            f"{task.steps:,}",
        ]
        if wide:
            row += [
                str(task.pid or "-"),
                task.address or "-",
                str(task.incarnation),
                task.transport or "-",
                task.blas or "-",
            ]
        if spares:
            row.append(size(task.spared_bytes))
        rows.append(row)
    return columns(header, rows, screen.style, screen.width)


def _state(task: TaskStatus) -> str:
    """Name a task's state, with its health where that says more."""
    if task.retry_in_s is not None and task.state in ("pending", "failed"):
        return f"{task.state} (again in {duration(task.retry_in_s)})"
    if task.state == "running" and task.health in ("suspect", "down"):
        return f"{task.health} (running)"
    return task.state


def job_table(jobs: Sequence[JobStatus], screen: Screen, now: float, wide: bool) -> list[str]:
    """Write one line a job."""
    header = ["JOB", "STATE", "PROGRESS", "STARTED", "TOOK", "RESTARTS"]
    if wide:
        header += ["EXIT", "FRAMEWORK", "PRIORITY", "TASKS", "SCRIPT"]
    limits = [limit_words(job) for job in jobs]
    limited, explained = any(limits), any(job.reason for job in jobs)
    header += [*(["LIMITS"] if limited else []), *(["REASON"] if explained else [])]
    rows = []
    for job, words in zip(jobs, limits):
        end = job.ended if job.ended is not None else now
        state = f"queued ({job.position})" if job.state == "queued" and job.position else job.state
        row = [
            job.id,
            state,
            progress_words(job.progress) or "-",
            f"{age(job.started, now)} ago" if job.started else "-",
            duration(end - job.started) if job.started else "-",
            str(job.restarts),
        ]
        if wide:
            row += [
                "-" if job.exit_code is None else str(job.exit_code),
                job.framework,
                str(job.priority),
                str(len(job.tasks) or "-"),
                job.script,
            ]
        if limited:
            row.append(words or "-")
        if explained:
            row.append(" ".join(job.reason.split()) or "-")
        rows.append(row)
    return columns(header, rows, screen.style, screen.width)


def limit_words(job: JobStatus) -> str:
    """Say what each process of a job may use: `2 cpus, 200MiB, 2 gpus`; empty where nothing limits it."""
    parts = [f"{job.cpus:g} cpus"] if job.cpus is not None else []
    if job.memory is not None:
        parts.append(size(job.memory) if job.memory else "all memory")
    if job.gpus is not None:
        parts.append(f"{job.gpus} gpus")
    if not parts and job.clients:
        return re.sub(r" \([^)]*\)", "", job.clients[0].limits)
    return ", ".join(parts)


def grant_lines(status: ClusterStatus, now: float) -> list[str]:
    """Say what the hosts are lent by and for how long yet, in a line, where somebody lends them."""
    grant = status.grant
    if grant is None:
        return []
    if grant.state == "granted":
        nodes = ", ".join(host.node for host in status.hosts if host.node)
        on = f" on {nodes}" if nodes else ""
        left = "no time limit" if grant.ends is None else f"{duration(grant.ends - now)} left"
        return [f"{grant.what}{on}: {left}"]
    if grant.state == "queued":
        is_known = grant.starts is not None and grant.starts > now
        when = f", expected in {duration(grant.starts - now)}" if is_known and grant.starts is not None else ""
        return [f"{grant.what} waits in the queue: {grant.why}{when}"]
    return [f"{grant.what} {grant.why}; ask for another: dtfctl up FILE"]


def progress_words(progress: Progress | None) -> str:
    """`step 200/1000, loss 0.31, accuracy 0.94`."""
    if progress is None:
        return ""
    steps = f"step {progress.step:,}" + (f"/{progress.total:,}" if progress.total else "")
    known = [name for name in ("loss", "accuracy") if name in progress.metrics]
    names = known + sorted(set(progress.metrics) - set(known))
    return ", ".join([steps, *(f"{name} {number(progress.metrics[name])}" for name in names)])


def host_table(hosts: Sequence[HostStatus], screen: Screen) -> list[str]:
    """Write one line a host."""
    wide = screen.output == "wide"
    explained = any(_reason_of(host) for host in hosts)
    rows = [
        [
            f"{host.name} ({host.node})" if host.node else host.name,
            host.state,
            str(host.tasks),
            str(host.cores or "-"),
            "-" if host.load is None else f"{host.load:.1f}",
            f"{size(host.memory_free_bytes)}/{size(host.memory_bytes)}",
            size(host.disk_free_bytes),
            str(host.gpus),
            str(host.agent_pid or "-"),
            *([host.agent_address or "-", host.through or "directly"] if wide else []),
            *([_reason_of(host) or "-"] if explained else []),
        ]
        for host in hosts
    ]
    header = ["HOST", "STATE", "TASKS", "CORES", "LOAD", "FREE MEMORY", "FREE DISK", "GPUS", "AGENT PID"]
    header += ["CALLED AT", "THROUGH"] if wide else []
    header += ["REASON"] if explained else []
    return columns(header, rows, screen.style, screen.width)


def way_table(tasks: Sequence[TaskStatus], screen: Screen) -> list[str]:
    """Write one line for each way between two tasks that are linked; nothing where none is."""
    rows = [
        [
            task.name,
            link.peer,
            link.transport,
            "yes" if link.encrypted else "no",
            f"{link.bytes_s / 1e6:,.3g}MB/s" if link.bytes_s else "-",
            link.codecs or "-",
        ]
        for task in tasks
        for link in task.links
    ]
    header = ["FROM", "TO", "TRANSPORT", "ENCRYPTED", "RATE", "CODECS"]
    return columns(header, rows, screen.style, screen.width) if rows else []


def link_table(links: Sequence[LinkStatus], screen: Screen, now: float) -> list[str]:
    """Write one line for each way between two hosts."""
    rows = [
        [
            link.source,
            link.target,
            "-" if link.problem else f"{link.round_trip_s * 1e3:.2f}ms",
            "-" if link.problem else f"{link.bytes_s / 1e6:,.0f}MB/s",
            f"{duration(now - link.measured)} ago",
        ]
        for link in links
    ]
    return columns(["FROM", "TO", "ROUND TRIP", "RATE", "MEASURED"], rows, screen.style, screen.width)


def _reason_of(host: HostStatus) -> str:
    """Say why a host is not in use, in one line."""
    text = host.note if host.state in ("drained", "quarantined") else host.last_error
    return " ".join((text or ("by the user" if host.state == "drained" else "")).split())


def _troubles(status: ClusterStatus, tasks: Sequence[TaskStatus], screen: Screen) -> list[str]:
    """Write the problems, then the last words of tasks and jobs that gave up."""
    out: list[str] = []
    if status.problems:
        out += ["", screen.style("problems:", "bold"), *(f"  {text}" for text in status.problems)]
    for task in tasks:
        if task.state in ("failed", "crashed") and task.last_lines:
            out += ["", f"last lines of {task.name}:", *(f"  {line}" for line in task.last_lines[-_LAST_LINES:])]
    if status.advice:
        out += ["", *(f"advice: {text}" for text in status.advice)]
    if status.notes:
        out += ["", *(f"note: {text}" for text in status.notes)]
    return out


def job_lines(job: JobStatus, screen: Screen, now: float) -> list[str]:
    """Write one job in detail."""
    color = {"succeeded": "green", "running": "green", "failed": "red"}.get(job.state, "yellow")
    reason = f": {job.reason}" if job.reason else ""
    out = [f"{job.id} {screen.style(job.state, color) if job.state != 'queued' else 'is queued'}{reason}", ""]
    facts = [
        ("script", " ".join([job.script, *job.args])),
        ("framework", job.framework + (f", {job.replication}" if job.framework == "dtf" else "")),
        ("submitted", f"{age(job.submitted, now)} ago"),
    ]
    if job.started is not None:
        facts.append(("took", duration((job.ended if job.ended is not None else now) - job.started)))
    if job.position:
        facts.append(("place in queue", str(job.position)))
    if job.priority:
        facts.append(("priority", str(job.priority)))
    if job.exit_code is not None:
        facts.append(("exit code", str(job.exit_code)))
    facts.append(("restarts", str(job.restarts)))
    if job.progress is not None:
        facts.append(("progress", progress_words(job.progress)))
    if job.checkpoint_dir:
        facts.append(("checkpoints", job.checkpoint_dir))
    if job.checkpoint:
        facts.append(("newest kept", f"{job.checkpoint} on {', '.join(job.checkpoint_hosts)}"))
    width = max(len(name) for name, _ in facts)
    out += [f"{name.ljust(width)}  {text}" for name, text in facts]
    if job.clients:
        header = (
            "PROCESS",
            "STATE",
            "TASK",
            "HOST",
            "PID",
            "ADDRESS",
            "EXIT",
            "RESTARTS",
            "MEMORY",
            "LIMITS",
            "PROGRESS",
        )
        rows = [
            (
                client.name,
                client.state,
                client.task or "-",
                client.host or "-",
                str(client.pid or "-"),
                client.address or "-",
                "-" if client.exit_code is None else str(client.exit_code),
                str(client.restarts),
                "-" if client.rss_bytes is None else size(client.rss_bytes),
                client.limits or "-",
                progress_words(client.progress) or "-",
            )
            for client in job.clients
        ]
        out += ["", *columns(header, rows, screen.style, screen.width)]
    for client in job.clients:
        if client.state in ("failed", "crashed") and client.last_lines:
            out += ["", f"last lines of {client.name}:", *(f"  {line}" for line in client.last_lines)]
    return out


def event_line(event: Event, screen: Screen) -> str:
    """Write one event on one line."""
    word = event.kind.rpartition(".")[2]
    color = {"failed": "red", "crashed": "red", "lost": "red", "down": "red", "suspect": "yellow"}.get(word)
    kind = event.kind.ljust(18)
    text = f"{clock(event.time)}  {event.subject.ljust(22)}  {screen.style(kind, color) if color else kind}"
    return f"{text}  {event.reason}".rstrip()


def why_lines(found: Explanation, screen: Screen) -> list[str]:
    """Write the answer, what led there, and the last words of a task that failed."""
    out = [found.answer]
    if found.chain:
        out += ["", *(event_line(event, screen) for event in found.chain)]
    if found.last_lines:
        out += ["", f"last lines of {found.subject}:", *(f"  {line}" for line in found.last_lines[-_LAST_LINES:])]
    return out
