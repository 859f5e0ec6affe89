"""Why a task or a job is as it is: the answer in one sentence, and the events that led there. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtfctl.launcher.errors import NoSuchTask
from dtfctl.launcher.model import RESTARTED, ClusterStatus, Event, HostStatus, JobStatus, TaskStatus

MOST_EVENTS = 12
"""The newest of the chain; what is older rarely matters any more."""
_ENDED = frozenset({"task.ended", "task.failed", "task.crashed", "task.done", "process.ended", "process.failed"})
_REQUESTS = ("task.restart-requested", "task.stop-requested", "task.start-requested")
_WHY_AGAIN = _ENDED | {"task.moved", *_REQUESTS}


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `why` says."""

    subject: str
    state: str
    answer: str
    """One sentence."""
    chain: tuple[Event, ...]
    """What led there, oldest first: events of the subject, its host, the controller."""
    last_lines: tuple[str, ...] = ()
    """The last lines of stderr, where it failed."""
    advice: str = ""
    """What to type next, if anything."""


def explain(name: str, status: ClusterStatus, events: Sequence[Event]) -> Explanation:
    """Explain task `worker/1` or a job by its id.

    Raises:
        NoSuchTask: neither a task nor a job has this name.
    """
    name = name.removeprefix("job:")
    for task in status.tasks:
        if task.name == name:
            return _task(task, status, events)
    for job in status.jobs:
        if job.id == name:
            return _job(job, status, events)
    known = ", ".join([task.name for task in status.tasks[:6]] + [job.id for job in status.jobs[:3]])
    raise NoSuchTask(f"there is no task or job {name!r}", f"for example: {known}" if known else "")


def _task(task: TaskStatus, status: ClusterStatus, events: Sequence[Event]) -> Explanation:
    host = next((item for item in status.hosts if item.name == task.host), None)
    own = [event for event in events if event.subject == task.name]
    subjects = {task.name, f"host:{task.host}", "controller"}
    chain = _since_it_was_well([event for event in events if event.subject in subjects], task.name)
    failed = task.state in ("failed", "crashed", "lost") or task.retry_in_s is not None
    return Explanation(
        subject=task.name,
        state=task.state,
        answer=f"{task.name} {_sentence(task, host, own)}",
        chain=chain,
        last_lines=task.last_lines if failed else (),
        advice=_advice(task, host),
    )


def _sentence(task: TaskStatus, host: HostStatus | None, own: Sequence[Event]) -> str:
    """Write what follows the task's name."""
    cause = task.last_error or next((e.reason for e in reversed(own) if e.kind in _ENDED and e.reason), "")
    because = f": {cause}" if cause else ""
    match task.state:
        case "running":
            return _running(task, own)
        case "starting":
            return f"is starting on {task.host} and has not said yet that it serves{_run_number(task)}"
        case "pending":
            return _pending(task, host, own)
        case "stopping":
            return f"is being stopped{_by_request(own) or because}"
        case "stopped":
            return f"is stopped{_by_request(own) or ' on request'}; it stays so until it is started"
        case "crashed":
            return f"has crashed: the restart policy gave up after {task.restarts} restarts{because}"
        case "failed":
            return f"has failed, and another try would change nothing{because}"
        case "lost":
            where = f"host {task.host} is gone" + (f" ({host.last_error})" if host and host.last_error else "")
            return f"is lost: {where}, so nobody knows how it ended"
        case "done":
            return "has ended by itself with exit code 0"


def _running(task: TaskStatus, own: Sequence[Event]) -> str:
    if task.health in ("suspect", "down"):
        late = next((e.reason for e in reversed(own) if e.kind == f"task.{task.health}"), "its beats are late")
        return f"runs but is {task.health}: {late}"
    if not task.restarts:
        return f"runs on {task.host} since it was first started"
    # The end of what runs may already be written down while its state is not.
    causes = [e for e in own if e.kind in _WHY_AGAIN and (e.kind not in _ENDED or e.incarnation < task.incarnation)]
    again = f"runs again on {task.host}{_run_number(task)}"
    if not causes:
        return again
    cause = causes[-1].reason.partition("; starts again in ")[0]
    if causes[-1].kind == "task.moved":
        return f"{again}; it was moved {cause}{_why_moved(own, causes[-1])}"
    if causes[-1].kind in _REQUESTS or cause == RESTARTED:
        return f"{again}; it was {RESTARTED}"
    return f"{again}; it was restarted because of: {cause}"


def _why_moved(own: Sequence[Event], moved: Event) -> str:
    """Say why, where that stands at the event that announced the move."""
    announced = next((e for e in reversed(own) if e.kind == "task.moving" and e.seq < moved.seq), None)
    return "" if ": " in moved.reason or announced is None else f": {announced.reason.partition(': ')[2]}"


def _pending(task: TaskStatus, host: HostStatus | None, own: Sequence[Event]) -> str:
    if task.retry_in_s is not None:
        return f"waits {task.retry_in_s:.1f} s before it is started again{_run_number(task)}: {task.last_error}"
    if not task.host:
        return f"waits for a host with a free slot{': ' + task.last_error if task.last_error else ''}"
    if host is None or host.state == "pending":
        return f"waits for the agent of host {task.host}" + (
            f": {host.last_error}" if host is not None and host.last_error else ", which is being started"
        )
    if host.state != "up":
        return f"waits for host {task.host}, which is {host.state}" + (
            f": {host.last_error}" if host.last_error else ""
        )
    if own and own[-1].kind in _REQUESTS:
        return f"is about to be started on {task.host} on request"
    return f"is about to be started on {task.host}" + (f": {task.last_error}" if task.last_error else "")


def _run_number(task: TaskStatus) -> str:
    return f" (incarnation {task.incarnation}, {task.restarts} restarts)" if task.restarts else ""


def _by_request(own: Sequence[Event]) -> str:
    last = next((event for event in reversed(own) if event.kind in (*_REQUESTS, "task.stopping")), None)
    if last is None:
        return ""
    return f": {last.reason}" if last.kind == "task.stopping" and last.reason else " on request"


def _advice(task: TaskStatus, host: HostStatus | None) -> str:
    if task.state in ("failed", "crashed", "lost"):
        return f"dtfctl restart {task.name}"
    if task.state == "stopped":
        return f"dtfctl start {task.name}"
    if task.state == "pending" and host is not None and host.state not in ("up", "pending"):
        return f"dtfctl logs agent:{task.host}"
    return ""


def _since_it_was_well(events: Sequence[Event], subject: str) -> tuple[Event, ...]:
    """Choose the newest events, from the last but one time on at which `subject` began to run."""
    runs = [at for at, event in enumerate(events) if event.subject == subject and event.kind.endswith(".running")]
    begin = runs[-2] if len(runs) > 1 else 0
    return tuple(events[begin:])[-MOST_EVENTS:]


def _job(job: JobStatus, status: ClusterStatus, events: Sequence[Event]) -> Explanation:
    own = f"job:{job.id}"
    chain = tuple(event for event in events if event.subject == own or event.subject.startswith(f"{own}:"))
    lines = next((client.last_lines for client in job.clients if client.last_lines), ())
    because = f": {job.reason}" if job.reason else ""
    match job.state:
        case "queued":
            ahead = [other.id for other in status.jobs if other.position and other.position < (job.position or 1)]
            active = [other.id for other in status.jobs if other.state in ("running", "recovering")]
            if job.reason:
                text = f"is queued{because}"
            elif ahead or active:
                text = f"is queued behind {', '.join([*active, *ahead])}"
            else:
                text = "is queued and is about to start"
        case "running":
            text = "runs" + (f", {job.restarts} of its processes' starts were restarts" if job.restarts else "")
        case "recovering":
            text = f"recovers{because}"
        case "succeeded":
            text = "has succeeded"
        case "cancelled":
            text = f"was cancelled{because}"
        case "failed":
            text = f"has failed{because or f': exit code {job.exit_code}'}"
    advice = advice_after(job, f"dtfctl logs {job.id}")
    return Explanation(job.id, job.state, f"{job.id} {text}", chain[-MOST_EVENTS:], lines, advice)


def advice_after(job: JobStatus, otherwise: str) -> str:
    """Say what to type next where a job has failed: what its reason asks for, or `otherwise`."""
    if job.state != "failed":
        return ""
    return f"dtfctl submit --memory SIZE {job.script}" if "out of memory: it used" in job.reason else otherwise
