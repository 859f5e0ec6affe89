"""Which tasks a word means.

`worker` · `worker/1` · `worker/0-3` · `ps` · `host:NAME` · `failed` · `all`, and several with commas.
(`job:ID` names a job, not tasks; see `job_id`.)
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from dtfctl.launcher.errors import NoSuchTask, UsageError
from dtfctl.launcher.model import TaskStatus

FAILED_STATES = frozenset({"failed", "crashed", "lost"})
_TASKS = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:/(\d+)(?:-(\d+))?)?")


def select(selector: str, tasks: Sequence[TaskStatus]) -> list[TaskStatus]:
    """Select the tasks that `selector` names, in the order of `tasks`.

    Raises:
        UsageError: it is no selector.
        NoSuchTask: it names a task, job or host that is not there. `failed` may match nothing.
    """
    parts = [part.strip() for part in selector.split(",") if part.strip()]
    if not parts:
        raise UsageError("empty selector", "for example: worker/1, ps, failed, all")
    chosen: dict[str, TaskStatus] = {}
    for part in parts:
        for task in _select_one(part, tasks):
            chosen[task.name] = task
    return [task for task in tasks if task.name in chosen]


def chosen_of(selector: str, tasks: Sequence[TaskStatus], placed: Mapping[str, str]) -> list[str]:
    """Select by `selector` among `tasks` and those that are to be on the hosts `placed`; return the names."""
    known = {task.name for task in tasks}
    new = [(*name.partition("/")[::2], host) for name, host in placed.items() if name not in known]
    future = [TaskStatus(job, int(index), "pending", host=host) for job, index, host in new]
    return [task.name for task in select(selector, [*tasks, *future])]


def job_id(selector: str) -> str | None:
    """Read the job's id from `job:ID`; None where the selector is another one."""
    return selector.removeprefix("job:") if selector.startswith("job:") else None


def _select_one(part: str, tasks: Sequence[TaskStatus]) -> list[TaskStatus]:
    if part == "all":
        return list(tasks)
    if part == "failed":
        return [task for task in tasks if is_failed(task)]
    if part.startswith("host:"):
        found = [task for task in tasks if task.host == part.removeprefix("host:")]
        if not found:
            raise NoSuchTask(f"no task runs on host {part.removeprefix('host:')!r}", _known(tasks))
        return found
    match = _TASKS.fullmatch(part)
    if match is None:
        raise UsageError(f"{part!r} is not a selector", "for example: worker/1, worker/0-3, ps, host:NAME, failed, all")
    job, first, last = match[1], match[2], match[3] or match[2]
    found = [t for t in tasks if t.job == job and (first is None or int(first) <= t.index <= int(last))]
    if not found:
        words = sorted({*(task.job for task in tasks), *(("failed", "all") if first is None else ())})
        near = difflib.get_close_matches(job, [word for word in words if word != job], 1)
        meant = f"did you mean {part.replace(job, near[0], 1)}? " if near else ""
        raise NoSuchTask(f"there is no task {part}", meant + _known(tasks))
    return found


def is_failed(task: TaskStatus) -> bool:
    return task.state in FAILED_STATES or task.health == "down"


def _known(tasks: Sequence[TaskStatus]) -> str:
    names = [task.name for task in tasks]
    shown = ", ".join(names[:8]) + (f", ... ({len(names)} in all)" if len(names) > 8 else "")
    return f"tasks of this cluster: {shown}" if names else "the cluster has no tasks"
