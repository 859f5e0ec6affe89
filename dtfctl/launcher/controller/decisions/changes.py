"""What a new spec means for a cluster that may be running: which tasks start, stop, restart or move, and in words.

Only what differs changes: a task whose definition is the same and whose host may keep it goes on as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from dtfctl.launcher.controller.state.store import TaskRow
from dtfctl.launcher.errors import Conflict, UsageError
from dtfctl.launcher.spec.model import ClusterSpec, Slurm

DEFINES_TASKS = ("tasks", "env", "python", "ports", "runtime", "host_groups")
"""Keys of the spec whose changes are told by what they do to tasks."""


@dataclass(frozen=True, slots=True)
class Change:
    """The rows after a change of the spec, in its order, and one line for each thing that happens."""

    rows: tuple[TaskRow, ...]
    lines: tuple[str, ...]
    removed: tuple[str, ...] = ()


def check_possible(before: ClusterSpec, after: ClusterSpec) -> None:
    """Raise Conflict for what cannot change while the cluster is up."""
    fixed = {
        "where the controller runs": (before.controller.place, after.controller.place),
        "`home`": (before.home, after.home),
        "`security`": (before.security, after.security),
        "whether hosts are reached by SSH": (before.is_local, after.is_local),
        "`provider`": (before.provider, after.provider),
        "what is asked of Slurm": (_asked(before), _asked(after)),
        "what is asked of Ray": (replace(before.ray, slots=None), replace(after.ray, slots=None)),
    }
    changed = [what for what, (old, new) in fixed.items() if old != new]
    if changed:
        raise Conflict(
            f"cluster {before.cluster} is up, and {' and '.join(changed)} cannot change while it is",
            f"take it down first: dtfctl down -c {before.cluster}",
        )


def _asked(spec: ClusterSpec) -> Slurm:
    """Reduce `slurm` to what an allocation was asked for with."""
    return replace(spec.slurm, slots=None, on_limit="end", margin=0.0)


def take_over(
    before: ClusterSpec | None,
    after: ClusterSpec,
    rows: Mapping[str, TaskRow],
    placed: Mapping[str, str],
    new_command: bool = False,
    chosen: Collection[str] | None = None,
) -> Change:
    """Change the tasks in `rows`, made by `before`, to those of `after`, whose places are `placed`.

    `chosen`: the others are left as they are, and new ones among them are not started.
    """
    found, lines = [], []
    alone = len(rows) == 1 < len(placed)
    for name, host in placed.items():
        is_meant = chosen is None or name in chosen
        row = rows.get(name)
        if row is None or (row.held and is_meant):
            found.append(TaskRow(name, host, held=not is_meant))
            lines.append(f"start {name} on {host}" if is_meant else f"leave out {name} on {host}")
            continue
        assert before is not None
        why = _new_definition(before, after, row.job, new_command)
        if alone and not why:
            why = "it was the only task"  # and was started without a way to others
        if not is_meant:
            found.append(replace(row, owed=why, owed_at=row.incarnation) if why and not row.held else row)
            continue
        if not why and row.incarnation <= row.owed_at:
            why = row.owed
        row = replace(row, owed="")
        if host != (row.move_to or row.host):
            lines.append(f"move {name} from {row.host} to {host}")
            row = replace(row, move_to="" if host == row.host else host)
        if why:
            lines.append(f"restart {name}: {why}")
            row = replace(row, restart_request=row.restart_request + 1, failures=())
        found.append(row)
    removed = tuple(name for name in rows if name not in placed)
    lines += [f"stop {name}" for name in removed]
    for key in ClusterSpec.__dataclass_fields__ if before is not None else ():
        if key not in DEFINES_TASKS and getattr(before, key) != getattr(after, key):
            lines.append(f"change {key}")
    if not lines and before is not None and before != after:
        lines.append("change hosts" if before.host_groups != after.host_groups else "change tasks")
    return Change(tuple(found), tuple(lines), removed)


def _new_definition(before: ClusterSpec, after: ClusterSpec, job: str, new_command: bool) -> str:
    """List what has changed of that with which the tasks of a job are started; empty when nothing has."""
    old, new = before.tasks[job], after.tasks[job]
    parts = {
        "command": new_command,
        "env": {**before.env, **old.env} != {**after.env, **new.env},
        "gpus": old.gpus != new.gpus,
        "memory": old.memory != new.memory,
        "python": before.python != after.python,
        "ports": before.ports != after.ports,
        "runtime": before.runtime != after.runtime,
    }
    changed = [name for name, differs in parts.items() if differs]
    return f"its {' and '.join(changed)} changed" if changed else ""


def with_others(before: ClusterSpec, after: ClusterSpec, chosen: Collection[str]) -> ClusterSpec:
    """Add to `after` the tasks of `before` that it does not have and that are not chosen, so that they stay."""
    tasks = dict(after.tasks)
    for name in before.task_names:
        job, _, index = name.partition("/")
        group = tasks.get(job)
        if name in chosen or (group is not None and int(index) < group.count):
            continue
        if group is None:
            old = before.tasks[job]
            group = replace(old, hosts=tuple(item for item in old.hosts if item in after.host_groups))
        tasks[job] = replace(group, count=int(index) + 1)
    return replace(after, tasks=tasks)


def scaled(spec: ClusterSpec, counts: Mapping[str, int]) -> ClusterSpec:
    """Change the numbers of tasks in a spec.

    Raises:
        UsageError: it has no such tasks, or the number is not possible.
    """
    tasks = dict(spec.tasks)
    for job, count in counts.items():
        group = tasks.get(job)
        if group is None:
            raise UsageError(f"the cluster has no tasks called {job!r}", f"it has: {', '.join(tasks)}")
        least = group.min or 0
        if count < least:
            raise UsageError(f"{count} is below `min: {least}` of {job}", "change the file, then `dtfctl up FILE`")
        if job == "chief" and count > 1:
            raise UsageError(f"{count} chiefs: there can be one")
        tasks[job] = replace(group, count=count)
    if not any(group.count for group in tasks.values()):
        raise UsageError("no task would be left", f"to end the cluster: dtfctl down -c {spec.cluster}")
    return replace(spec, tasks=tasks)
