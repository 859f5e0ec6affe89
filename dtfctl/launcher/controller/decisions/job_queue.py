"""Which job gets which tasks, and when: pure functions of the jobs and of how the tasks are.

A job has its tasks (workers, chief, evaluator) to itself, or shares them with other jobs that asked to; ps serve all
jobs. Jobs are taken by priority, then by age. One that has to wait keeps what it waits for from those behind it, so
that a large job is not passed by small ones for ever; jobs that want other tasks go ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from dtfctl.launcher.controller.decisions.gpu_room import GpuRoom
from dtfctl.launcher.controller.state.frameworks import of
from dtfctl.launcher.controller.state.frameworks.base import CLIENT_JOBS
from dtfctl.launcher.controller.state.job_lifecycle import JobRecord, Placed, start
from dtfctl.launcher.errors import Conflict, LauncherError, UsageError
from dtfctl.launcher.model import JobRequest, TaskStatus
from dtfctl.launcher.selectors import select
from dtfctl.launcher.spec.elastic import SPREAD_JOB, is_elastic, least_of, least_tasks
from dtfctl.launcher.spec.model import ClusterSpec

NAMES_SHOWN = 5


@dataclass(slots=True)
class Taken:
    """Who has which task."""

    alone: dict[str, str] = field(default_factory=dict)
    """Task to the job that has it to itself."""
    shared: dict[str, str] = field(default_factory=dict)
    """Task to one of the jobs that share it."""
    kept: dict[str, str] = field(default_factory=dict)
    """Task to the job that waits for it."""

    def by(self, task: str, share: bool) -> str | None:
        """Find the job in the way of one more."""
        return self.alone.get(task) or self.kept.get(task) or (None if share else self.shared.get(task))

    def take(self, job: JobRecord) -> None:
        target = self.shared if job.request.share else self.alone
        for placed in job.placed:
            if placed.role != "ps" and _job_of(placed.task) in CLIENT_JOBS:
                target[placed.task] = job.id


@dataclass(frozen=True, slots=True)
class Wish:
    """What a job wants of the cluster."""

    tasks: tuple[TaskStatus, ...]
    """The tasks for the job's own processes, the chief's first: all of them, or `count` of them."""
    ps: tuple[TaskStatus, ...]
    count: int | None = None


def schedule(
    jobs: Sequence[JobRecord],
    tasks: Sequence[TaskStatus],
    minimum: Mapping[str, int],
    now: float,
    held_back: Mapping[str, str] | None = None,
    gpus: GpuRoom | None = None,
) -> list[JobRecord]:
    """Start the jobs that can be started, and say of the others why they wait.

    Args:
        minimum: running tasks that a group needs at least.
        held_back: jobs that must not begin now, and why.
        gpus: what hosts have of them; without it nobody waits for any.
    """
    taken, room = Taken(), gpus or GpuRoom(tasks, {}, {})
    for job in jobs:
        if job.is_active:
            taken.take(job)
            _take_gpus(job, job.placed, room)
    after = {job.id: job for job in jobs}
    for job in jobs:
        after[job.id] = _grown(job, tasks, taken)
    waiting = [job for job in jobs if job.state == "queued" and job.ending is None]
    held = held_back or {}
    after |= {job.id: replace(job, reason=f"waits: {held[job.id]}") for job in waiting if job.id in held}
    waiting = [job for job in waiting if job.id not in held]
    for job in sorted(waiting, key=lambda job: (-job.request.priority, job.seq)):
        after[job.id] = _try_to_start(job, tasks, minimum, taken, room, now)
    return [after[job.id] for job in jobs]


def check(request: JobRequest, tasks: Sequence[TaskStatus]) -> None:
    """Refuse what no waiting would make possible.

    Raises:
        UsageError: contradicting options, or a selector that is none.
        NoSuchTask: it names tasks that the cluster does not have.
        Conflict: it wants more than there is.
    """
    framework = of(request.framework)
    if request.tasks is not None and request.workers is not None:
        raise UsageError("`--tasks` and `--workers` exclude each other", "give one of them")
    if request.replication == "in-graph" and request.framework not in ("dtf", "command"):
        raise UsageError(
            f"in-graph replication is for jobs that use the cluster's tasks, not for {request.framework}",
            "leave `--replication` out",
        )
    if request.replication == "elastic":
        if request.framework != "dtf":
            raise UsageError(
                f"elastic jobs are for programs that call run_elastic, not for {request.framework}",
                "leave `--replication` out",
            )
        if request.tasks is not None or request.workers is not None:
            raise UsageError("an elastic job has all workers of the cluster", "leave `--tasks` and `--workers` out")
        if request.gpus:
            raise UsageError("elastic jobs get no GPUs of their own", "leave `--gpus` out")
    if request.min_workers is not None and framework.restarts != "all":
        raise UsageError(
            f"`--min-workers` is for groups that start again together (torch, jax), not for {request.framework}",
            "leave it out: the other processes go on without one that is lost",
        )
    if request.tf_config == "sparse" and request.framework != "tensorflow":
        raise UsageError("`--tf-config sparse` is for `--framework tensorflow`", "leave it out")
    if request.python is not None and not framework.interpreter:
        raise UsageError("`--python` has no meaning for a command", "leave it out, or give another framework")
    wish = wanted(request, tasks)
    if request.tasks is not None and not wish.tasks:
        raise UsageError(f"`--tasks {request.tasks}` names no worker, chief or evaluator", "a job runs beside those")
    if wish.count is not None and wish.count > len(wish.tasks):
        raise Conflict(
            f"the job wants {wish.count} workers, the cluster has {len(wish.tasks)}",
            "ask for fewer, or take the cluster up with more",
        )
    most = len(wish.tasks) if wish.count is None else wish.count
    if request.min_workers is not None and not 1 <= request.min_workers <= most:
        raise UsageError(f"`--min-workers {request.min_workers}`, but the job has {most} processes", "ask for fewer")
    names = [placed.name for placed in placed_on(request, wish, wish.tasks[: wish.count]) if placed.runs]
    if names and request.exit_code_from not in (None, "chief", *names):
        raise UsageError(
            f"`--exit-code-from {request.exit_code_from}` names no process of the job",
            f"it has {', '.join(names[:NAMES_SHOWN])}{' ...' if len(names) > NAMES_SHOWN else ''}; or say chief",
        )


def wanted(request: JobRequest, tasks: Sequence[TaskStatus]) -> Wish:
    """Find what a job wants of the cluster. Raises NoSuchTask, UsageError: the request's selector."""
    named = list(tasks) if request.tasks is None else select(request.tasks, tasks)
    ps = tuple(task for task in named if task.job == "ps")
    if request.workers is not None:
        workers = tuple(task for task in named if task.job == "worker")
        return Wish(workers, ps, request.workers)
    own = tuple(task for job in CLIENT_JOBS for task in named if task.job == job)
    if not ps and of(request.framework).needs_tasks:
        ps = tuple(task for task in tasks if task.job == "ps")  # variables live somewhere
    return Wish(own, ps)


def elastic_request(request: JobRequest, spec: ClusterSpec, tasks: Sequence[TaskStatus]) -> JobRequest:
    """Let a job on hosts that come and go do with as few processes as have a host then, unless it says how many."""
    if request.min_workers is not None or not is_elastic(spec) or request.replication != "between-graph":
        return request
    wish = wanted(request, tasks)
    own = wish.tasks[: wish.count]
    workers = sum(task.job == SPREAD_JOB for task in own)
    least = least_of(spec, workers)
    if workers == spec.tasks[SPREAD_JOB].count if SPREAD_JOB in spec.tasks else False:
        least = min(workers, least_tasks(spec)[SPREAD_JOB])
    if least >= workers:
        return request
    return replace(request, min_workers=max(1, len(own) - workers + least))


def placed_on(request: JobRequest, wish: Wish, own: Sequence[TaskStatus]) -> tuple[Placed, ...]:
    """Place the job's processes under its own names: numbered from 0 in each group."""
    framework = of(request.framework)
    numbers: dict[str, int] = {}
    found: list[Placed] = []
    for task in (*own, *(wish.ps if framework.sees_tasks or framework.brings_ps else ())):
        number = numbers[task.job] = numbers.get(task.job, -1) + 1
        if task.job == "ps":
            runs = framework.brings_ps
        else:
            runs = request.replication != "in-graph" or not found
        found.append(Placed(f"{task.job}/{number}", task.name, runs))
    return tuple(found)


def _grown(job: JobRecord, tasks: Sequence[TaskStatus], taken: Taken) -> JobRecord:
    """Give an elastic job that runs the workers that the cluster has got since, if nobody has them."""
    if job.request.replication != "elastic" or job.state != "running" or job.ending is not None or not job.released:
        return job
    if any(placed.name != placed.task for placed in job.placed):
        return job  # it began on some of the tasks, under names of its own
    mine = {placed.task for placed in job.placed}
    groups = {placed.role for placed in job.processes}
    new = tuple(
        Placed(task.name, task.name)
        for task in sorted(tasks, key=lambda task: (task.job, task.index))
        if task.job in groups
        and task.name not in mine
        and task.state == "running"
        and taken.by(task.name, job.request.share) is None
    )
    if not new:
        return job
    processes = [*job.processes, *new]
    others = [placed for placed in job.placed if not placed.runs]
    job = replace(job, placed=(*processes, *others))
    taken.take(job)
    return job


def _try_to_start(
    job: JobRecord,
    tasks: Sequence[TaskStatus],
    minimum: Mapping[str, int],
    taken: Taken,
    room: GpuRoom,
    now: float,
) -> JobRecord:
    request = job.request
    try:
        wish = wanted(request, tasks)
    except LauncherError as error:  # the cluster has changed since it was submitted
        return replace(job, reason=f"waits: {error.message}")
    if not wish.tasks:
        return replace(job, reason="the cluster has no worker, chief or evaluator to run it on")
    free = [task for task in wish.tasks if taken.by(task.name, request.share) is None]
    if len(free) < (len(wish.tasks) if wish.count is None else wish.count):
        for task in wish.tasks if wish.count is None else free:
            taken.kept.setdefault(task.name, job.id)
        return replace(job, reason=_turn(wish, taken, job, free))
    own = free
    if wish.count is not None:
        best = _best(request, free, room)[: wish.count]
        own = sorted(best, key=lambda task: task.index)
    missing = _missing(request, own, wish, tasks, minimum)
    if missing:
        for task in own:
            taken.kept.setdefault(task.name, job.id)
        names = ", ".join(task.name for task in missing[:NAMES_SHOWN])
        return replace(job, reason=f"waits for {names}" + (" ..." if len(missing) > NAMES_SHOWN else ""))
    placed = placed_on(request, wish, own)
    lacks = room.lacks(_slots(placed), request.gpus or 0, own_only=_own_only(request))
    _take_gpus(job, placed, room)
    if lacks:
        for task in own:
            taken.kept.setdefault(task.name, job.id)
        return replace(job, reason=lacks)
    job = start(job, placed, now)
    taken.take(job)
    return job


def _best(request: JobRequest, free: Sequence[TaskStatus], room: GpuRoom) -> list[TaskStatus]:
    """Order workers: those that run before others, those whose hosts have GPUs for them before others."""

    def waits(task: TaskStatus) -> bool:
        return bool(room.lacks([task.name], request.gpus or 0, own_only=_own_only(request)))

    return sorted(free, key=lambda task: (not _is_fit(request, task), waits(task), task.index))


def _slots(placed: Sequence[Placed]) -> list[str]:
    return [item.task for item in placed if item.runs]


def _own_only(request: JobRequest) -> bool:
    return of(request.framework).gpus == "host"


def _take_gpus(job: JobRecord, placed: Sequence[Placed], room: GpuRoom) -> None:
    room.take(job.id, _slots(placed), job.request.gpus or 0, own_only=_own_only(job.request))


def _is_fit(request: JobRequest, task: TaskStatus) -> bool:
    return task.state == "running" if of(request.framework).needs_tasks else task.state != "lost"


def _missing(
    request: JobRequest,
    own: Sequence[TaskStatus],
    wish: Wish,
    tasks: Sequence[TaskStatus],
    minimum: Mapping[str, int],
) -> list[TaskStatus]:
    """List what tasks a job still lacks to start. One that has a whole group starts with the group's minimum."""
    framework = of(request.framework)
    chosen = [*own, *wish.ps] if framework.needs_tasks or framework.brings_ps else list(own)
    missing = []
    for group in dict.fromkeys(task.job for task in chosen):
        mine = [task for task in chosen if task.job == group]
        away = [task for task in mine if not _is_fit(request, task)]
        whole = len(mine) == sum(task.job == group for task in tasks)
        need = min(minimum.get(group, len(mine)), len(mine)) if framework.needs_tasks and whole else len(mine)
        if request.min_workers is not None and (framework.restarts == "all" or group == SPREAD_JOB):
            need = min(need, request.min_workers)
        if len(mine) - len(away) < need:
            missing += away
    return missing


def _turn(wish: Wish, taken: Taken, job: JobRecord, free: Sequence[TaskStatus]) -> str:
    others = (taken.by(task.name, job.request.share) for task in wish.tasks if task not in free)
    names = ", ".join(list(dict.fromkeys(other for other in others if other not in (None, job.id)))[:NAMES_SHOWN])
    return f"waits for its turn after {names}" if names else "waits for its turn"


def _job_of(task: str) -> str:
    return task.partition("/")[0]
