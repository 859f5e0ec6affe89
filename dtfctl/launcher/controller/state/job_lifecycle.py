"""The life of a job, as pure functions over what agents report about its processes.

    queued -> running <-> recovering -> succeeded | failed | cancelled

A queue gives a job its tasks (`job_queue.py`). All its processes are then started together, and again together when
the job is retried or its framework cannot lose one; each such start is a *generation*. Before a later one is released,
every host has said that nothing of the former is left there and which ports the new one has.

As soon as the outcome is decided (`ending`), the processes are told to stop; the job is final when none is left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dtfctl.health.restart import Ending as ProcessEnding, GiveUp, RestartHistory, RestartPolicy, decide
from dtfctl.launcher.controller.state.frameworks import Member
from dtfctl.launcher.controller.state.job_record import (
    Clock as Clock,
    Ending as Ending,
    JobRecord as JobRecord,
    Placed as Placed,
)
from dtfctl.launcher.messages.orders import RETRYABLE_EXIT
from dtfctl.launcher.messages.reports import ClientReport
from dtfctl.launcher.model import (
    ALIVE,
    ClientStatus,
    Success,
    TaskStatus,
)

CANCELLED_EXIT = 143
"""What a shell reports for a process ended by SIGTERM."""
TIMEOUT_EXIT = 124
"""The exit code of a job that ran too long, as timeout(1) has it."""
LOST_WORDS = "is lost"
BAD: frozenset[str] = frozenset({"failed", "crashed"})
FIRST_SIGNAL_EXIT = 129
LAST_SIGNAL_EXIT = 192
FINISH_S = 30.0
"""The seconds others have to end by themselves when the chief has succeeded, and that is what counts."""
GROW_AFTER_S = 30.0
"""The seconds an elastic group is left alone before it starts again with processes that have come."""
LONGEST_WAIT_S = 3600.0
"""A wait before a restart that seems longer is a clock that was set back: it is over."""


@dataclass(frozen=True, slots=True)
class JobView:
    """What the controller knows about the processes of all jobs."""

    clients: Mapping[str, Mapping[str, ClientReport]] = field(default_factory=dict)
    """Job id to the process's name in the job to the report of the host where it belongs."""
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Task name to host."""
    policy: RestartPolicy = field(default_factory=RestartPolicy)
    """The policy for restarts of whole groups."""
    rand: float = 0.5
    clock: Clock | None = None


def start(job: JobRecord, placed: Sequence[Placed], now: float) -> JobRecord:
    """Start a job that the queue has given tasks."""
    clients = tuple(ClientStatus(item.name, "", "pending", task=item.task) for item in placed if item.runs)
    job = replace(job, state="running", started=now, placed=tuple(placed), reason="", clients=clients)
    return job if job.framework.has_ports else replace(job, released=True, released_at=now)


def step(job: JobRecord, view: JobView, tasks: Mapping[str, TaskStatus], now: float) -> JobRecord:
    """Advance a job by what has been seen. Final jobs never change."""
    if job.is_final:
        return job
    if not job.placed:
        return job if job.ending is None else _final(job, job.ending, now)
    if job.started_clock is None:
        job = replace(job, started_clock=view.clock)
    found = view.clients.get(job.id, {})
    reports = {p.name: found[p.name] for p in job.processes if p.name in found}
    job = _count_starts(job, reports)
    job = replace(job, clients=tuple(_client_status(job, p, reports.get(p.name), view) for p in job.processes))
    if job.ending is None:
        job = _decide(job, reports, view, tasks, now)
    if job.ending is not None:
        job = _finish(job, job.ending, reports, view, tasks, now)
        if job.is_final or job.ending is not None:
            return job
    trouble = _trouble(job, tasks)
    return replace(job, state="recovering" if trouble else "running", reason=trouble or _preparation(job, tasks))


def cancel(job: JobRecord, grace_s: float, reason: str = "cancelled on request") -> JobRecord:
    """Cancel a job. Asked again with less patience, the less counts."""
    if job.is_final:
        return job
    if job.ending is not None and not job.ending.may_retry:
        return replace(job, grace_s=min(job.grace_s, grace_s))
    return replace(job, ending=Ending("cancelled", CANCELLED_EXIT, reason), grace_s=grace_s)


def without(job: JobRecord, removed: Collection[str], now: float) -> JobRecord:
    """Take removed tasks out of a job: it goes on with the others, unless the chief was among them."""
    left = tuple(placed for placed in job.placed if placed.task not in removed)
    if not job.is_active or left == job.placed:
        return job
    chief = job.processes[0]
    job = replace(job, placed=left)
    if job.ending is not None:
        return job
    if chief not in left:
        return replace(job, ending=Ending("failed", 1, f"{chief.task} was taken out of the cluster"))
    gone = "some of its tasks were taken out of the cluster"
    return _next_generation(job, gone, now) if job.framework.has_ports else job


# ------------------------------------------------------------------ decisions


def _decide(
    job: JobRecord, reports: Mapping[str, ClientReport], view: JobView, tasks: Mapping[str, TaskStatus], now: float
) -> JobRecord:
    """Release it, restart it, or settle its outcome."""
    limit = job.request.max_time_s
    if limit is not None and ran_s(job, view, now) > limit:
        reason = f"ran longer than its limit of {limit:.0f} s"
        return replace(job, ending=Ending("failed", TIMEOUT_EXIT, reason))
    current = {name: r for name, r in reports.items() if r.generation == job.generation}
    bad = [p.name for p in job.taking_part if p.name in current and current[p.name].state in BAD]
    if not job.released:
        return _failed(job, bad[0], current) if bad else _release(job, reports, view, tasks, now)
    done = {name for name, r in current.items() if r.state == "done" and r.exit_code == 0}
    lost = _left_out(job, tasks)
    needed = {p.name for p in job.taking_part if p.role != "ps" and not _never_came(job, p, current, tasks)}
    needed -= lost - done
    if job.taking_part[0].name in done:
        # By the policy `chief` it does not count how the others end; they have ended all the same.
        ended = done | set(bad) if success_of(job) == "chief" else done
        job = _without_chief(job, needed - ended, tasks, now)
        if job.ending is not None or success_of(job) == "chief":
            return job
    given_up = _given_up(job, needed - done, tasks)
    if given_up:
        return replace(job, ending=Ending("failed", 1, given_up))
    if job.framework.restarts == "all":
        blame = _not_its_fault(job, current, tasks) or _all_idle(job, current)
        if blame:
            return _again(job, blame, view, now)
    if bad:
        return _failed(job, bad[0], current)  # the chief is first
    moved = _moved(job, reports, view) if job.framework.has_ports else ""
    if not moved and job.members and not done:
        moved = _come(job, reports, tasks, now)
    if moved:
        return _next_generation(job, moved, now)
    if not needed or not needed <= done:
        return job
    away = ", ".join(sorted(lost - done))
    return replace(job, ending=Ending("succeeded", 0, f"without {away}, whose hosts are away" if away else ""))


def success_of(job: JobRecord) -> Success:
    """Choose whose exit code 0 makes the job a success."""
    return job.request.success or job.framework.success


def _without_chief(job: JobRecord, left: set[str], tasks: Mapping[str, TaskStatus], now: float) -> JobRecord:
    """Go on once the chief has succeeded; `left` have not ended yet. Nobody waits for a chief that comes no more."""
    lives = {p.task: tasks[p.task].incarnation for p in job.placed if p.role == "ps" and p.task in tasks}
    if job.chief_ended is None:
        job = replace(job, chief_ended=now, ps_lives=lives if job.framework.needs_tasks else {})
    assert job.chief_ended is not None
    if success_of(job) == "chief":
        is_over = not left or not 0 <= now - job.chief_ended < FINISH_S
        return replace(job, ending=Ending("succeeded", 0)) if is_over else job
    lost = [task for task, life in job.ps_lives.items() if lives.get(task, life) != life]
    if left and lost:
        reason = f"{lost[0]} was lost after the chief had ended: {', '.join(sorted(left))} would wait for it for ever"
        return replace(job, ending=Ending("failed", 1, reason, may_retry=True))
    return job


def _given_up(job: JobRecord, left: set[str], tasks: Mapping[str, TaskStatus]) -> str:
    """Find a task of the cluster that the job needs, and that died so often that it stays away; empty: none."""
    for placed in job.placed if job.framework.needs_tasks else ():
        task = tasks.get(placed.task)
        if task is not None and task.state in BAD and (placed.role == "ps" or placed.name in left):
            return f"{task.name} is {task.state}: {task.last_error}"
    return ""


def _never_came(
    job: JobRecord, placed: Placed, current: Mapping[str, ClientReport], tasks: Mapping[str, TaskStatus]
) -> bool:
    """Tell whether a process was away when the job started with the minimum of its group, and still is."""
    task = tasks.get(placed.task)
    away = task is None or task.state != "running"
    return job.framework.needs_tasks and placed.name not in current and away and placed != job.processes[0]


def ran_s(job: JobRecord, view: JobView, now: float) -> float:
    """Count the seconds since a job's first start, also when the machine's clock was set meanwhile."""
    begun, clock = job.started_clock, view.clock
    if begun is not None and clock is not None and begun.boot == clock.boot:
        return clock.seconds - begun.seconds
    return 0.0 if job.started is None else now - job.started


def _release(
    job: JobRecord,
    reports: Mapping[str, ClientReport],
    view: JobView,
    tasks: Mapping[str, TaskStatus],
    now: float,
) -> JobRecord:
    """Let the generation run once every host is ready for it; an elastic one does without those that are lost."""
    if job.not_before is not None and 0 < job.not_before - now < LONGEST_WAIT_S:
        return job
    members = []
    for placed in job.processes:
        report = reports.get(placed.name)
        if report is None or report.held != job.generation or report.state in ALIVE:
            if job.does_without(placed) and placed.task in tasks and tasks[placed.task].state == "lost":
                continue
            return job
        members.append(Member(placed.name, view.hosts.get(placed.task, ""), report.addresses))
    if job.is_elastic and len(members) < max(1, job.request.min_workers or 0):
        return job
    return replace(job, released=True, released_at=now, members=tuple(members), not_before=None)


def _left_out(job: JobRecord, tasks: Mapping[str, TaskStatus]) -> set[str]:
    """Find processes whose hosts are away and without which the others go on, each by itself."""
    if not job.is_elastic or job.framework.restarts == "all":
        return set()
    part = [placed for placed in job.processes if placed.role != "ps"]
    away = {
        placed.name
        for placed in part
        if job.does_without(placed) and placed.task in tasks and tasks[placed.task].state == "lost"
    }
    return away if len(part) - len(away) >= (job.request.min_workers or 0) else set()


def _come(job: JobRecord, reports: Mapping[str, ClientReport], tasks: Mapping[str, TaskStatus], now: float) -> str:
    """Name processes that an elastic group has done without and that could take part now; empty: none."""
    if not job.is_elastic or job.released_at is None or 0 <= now - job.released_at < GROW_AFTER_S:
        return ""
    takes_part = {placed.name for placed in job.taking_part}
    come = [
        placed.name
        for placed in job.processes
        if placed.name not in takes_part
        and placed.task in tasks
        and tasks[placed.task].state != "lost"
        and placed.name in reports
        and reports[placed.name].held == job.generation
    ]
    return f"{', '.join(come)} can take part" if come else ""


def _failed(job: JobRecord, name: str, reports: Mapping[str, ClientReport]) -> JobRecord:
    report = reports[name]
    code = report.exit_code or 1
    reason = f"{name}: {report.last_error or f'exit code {code}'}"
    return replace(job, ending=Ending("failed", code, reason, may_retry=True))


def _not_its_fault(job: JobRecord, current: Mapping[str, ClientReport], tasks: Mapping[str, TaskStatus]) -> str:
    """Name the process that ended by no fault of the program, and why; empty when there is none."""
    for placed in job.taking_part:
        report, task = current.get(placed.name), tasks.get(placed.task)
        from_outside = report is not None and not report.out_of_memory and _is_from_outside(report.exit_code)
        if report is not None and report.state in BAD and from_outside:
            return f"{placed.name}: {report.last_error}"
        if task is not None and task.state == "lost" and (report is None or report.state != "done"):
            return f"{placed.name}: its host {task.host} {LOST_WORDS}"
    return ""


def _all_idle(job: JobRecord, current: Mapping[str, ClientReport]) -> str:
    """Say that a group hangs: all that have not ended have done nothing for too long; empty when one works.

    One alone may wait for others, which may read their data for as long as they like.
    """
    left = [current.get(placed.name) for placed in job.taking_part]
    left = [report for report in left if report is None or report.state != "done"]
    idle = [report.idle_s for report in left if report is not None and report.idle_s is not None]
    if not left or len(idle) < len(left):
        return ""
    return f"hangs: none of its processes has done anything for {min(idle):.0f} s"


def _is_from_outside(exit_code: int | None) -> bool:
    """Tell whether the end was a signal, a code that asks for another start, or one that nobody saw."""
    return exit_code is None or exit_code == RETRYABLE_EXIT or FIRST_SIGNAL_EXIT <= exit_code <= LAST_SIGNAL_EXIT


def _moved(job: JobRecord, reports: Mapping[str, ClientReport], view: JobView) -> str:
    """Name a process that is no longer where the others were told it is; empty: none."""
    where = {placed.name: view.hosts.get(placed.task, "") for placed in job.processes}
    for member in job.members:
        if where.get(member.name) != member.host:
            return f"{member.name} moves from {member.host} to {where.get(member.name)}"
        report = reports.get(member.name)
        if report is not None and report.held == job.generation and report.addresses != member.addresses:
            return f"{member.name} has another port"
    return ""


def _again(job: JobRecord, reason: str, view: JobView, now: float) -> JobRecord:
    """Restart all processes, by the rules that single ones are restarted by."""
    ran_s = 0.0 if job.released_at is None else max(0.0, now - job.released_at)
    if job.is_elastic and reason.endswith(LOST_WORDS):  # hosts that come and go are no crash loop
        return _next_generation(job, reason, now)
    history, decision = decide(
        view.policy, job.history, ran_s=ran_s, ending=ProcessEnding(None, forced=True), now=now, rand=view.rand
    )
    job = replace(job, history=history)
    if isinstance(decision, GiveUp):
        return replace(job, ending=Ending("failed", 1, f"{reason}; {decision.reason}", may_retry=True))
    return _next_generation(job, reason, now + decision.delay_s)


def _next_generation(job: JobRecord, reason: str, not_before: float) -> JobRecord:
    return replace(
        job,
        generation=job.generation + 1,
        released=False,
        released_at=None,
        members=(),
        not_before=not_before,
        why_again=reason,
        ending=None,
        chief_ended=None,
        ps_lives={},
    )


def _finish(
    job: JobRecord,
    ending: Ending,
    reports: Mapping[str, ClientReport],
    view: JobView,
    tasks: Mapping[str, TaskStatus],
    now: float,
) -> JobRecord:
    """End a job once no process is left, unless it is to be tried again."""
    for placed in job.processes:
        report, task = reports.get(placed.name), tasks.get(placed.task)
        lost = task is not None and task.state == "lost"
        if not lost and (report is None or report.state in ALIVE):
            return job
    if not ending.may_retry:
        return _final(job, ending, now)
    current = {name: r for name, r in reports.items() if r.generation == job.generation}
    # Of a group that cannot lose a process, those that see a peer vanish fail first, and the peer is heard of later.
    blame = _not_its_fault(job, current, tasks) if job.framework.restarts == "all" and job.released else ""
    if blame:
        after = _again(replace(job, ending=None), blame, view, now)
        if after.ending is None:
            return after
    if job.retries_used < job.request.retries:
        used = job.retries_used + 1
        again = replace(job, retries_used=used, history=RestartHistory())
        return _next_generation(again, f"{ending.reason}; retry {used} of {job.request.retries}", now)
    return _final(job, ending, now)


def _final(job: JobRecord, ending: Ending, now: float) -> JobRecord:
    code = ending.exit_code
    wanted = job.request.exit_code_from
    if wanted is not None and ending.state != "cancelled" and job.clients:
        name = job.clients[0].name if wanted == "chief" else wanted
        code = next((c.exit_code for c in job.clients if c.name == name and c.exit_code is not None), code)
    # What its variables held, secrets perhaps, is of no more use.
    request = replace(job.request, env={})
    return replace(job, request=request, state=ending.state, exit_code=code, reason=ending.reason, ended=now)


# ------------------------------------------------------------------ for people


def _trouble(job: JobRecord, tasks: Mapping[str, TaskStatus]) -> str:
    """Say why a job does not go on as it should; empty when it does."""
    part = job.taking_part if job.is_elastic and job.framework.restarts == "all" else job.placed
    without = _left_out(job, tasks)
    found = [tasks[placed.task] for placed in part if placed.task in tasks and placed.name not in without]
    if job.framework.needs_tasks:
        down = [task for task in found if task.state != "running"]
    else:
        down = [task for task in found if task.state == "lost"]
    for task in down:
        if task.state in BAD:
            return f"{task.name} is {task.state}: {task.last_error}"
    parts = [] if job.released or job.generation == 1 else [f"all processes start again ({job.why_again})"]
    parts += [f"{task.name} is {task.state}" for task in down]
    if job.released:
        parts += [
            f"process of {c.name} starts again ({c.last_error})"
            for c in job.clients
            if c.state == "pending" and c.restarts and c.last_error
        ]
    return "; ".join(parts[:4])


def _preparation(job: JobRecord, tasks: Mapping[str, TaskStatus]) -> str:
    """Say what a job's first processes wait for; empty when they wait for nothing."""
    waiting = [f"{c.name}: {c.last_error}" for c in job.clients if c.state == "pending" and c.last_error]
    part = {placed.name for placed in job.taking_part} - _left_out(job, tasks)
    if len(part) < len(job.processes):
        waiting.insert(0, f"goes on with {len(part)} of {len(job.processes)} processes")
    return "; ".join(waiting[:4])


def _count_starts(job: JobRecord, reports: Mapping[str, ClientReport]) -> JobRecord:
    """Note how often processes have been started; one that has moved goes on counting where it is now."""
    heard = {name: report.restarts + 1 for name, report in reports.items() if report.generation}
    more = {name: count for name, count in heard.items() if count > job.starts.get(name, 0)}
    return replace(job, starts={**job.starts, **more}) if more else job


def _client_status(job: JobRecord, placed: Placed, report: ClientReport | None, view: JobView) -> ClientStatus:
    host = view.hosts.get(placed.task, "")
    restarts = max(0, job.starts.get(placed.name, 0) - 1)
    if report is None:
        return ClientStatus(placed.name, host, "pending", restarts=restarts, task=placed.task)
    state, error = report.state, report.last_error
    if job.ending is None and (state == "stopped" or (job.released and report.generation < job.generation)):
        # It is being got ready; one that has never been started says what it waits for.
        waits = report.state == "pending" and not report.generation
        state, error = "pending", error if waits else ""
    return ClientStatus(
        name=placed.name,
        host=host,
        state=state,
        pid=report.pid,
        exit_code=report.exit_code,
        restarts=restarts,
        last_error=error,
        last_lines=report.last_lines,
        progress=report.progress,
        task=placed.task,
        rss_bytes=report.rss_bytes,
        limits=report.limits,
        address=report.addresses[0] if report.addresses and job.generation == report.held else "",
    )
