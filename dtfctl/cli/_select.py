"""Selectors and times as they are typed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime

from dtfctl.launcher.errors import NoSuchTask, UsageError
from dtfctl.launcher.model import ClusterStatus, TaskStatus
from dtfctl.launcher.spec.units import parse_duration

FAILED_STATES = frozenset({"failed", "crashed", "lost"})
FILLERS = frozenset({"task", "tasks"})


def selectors(words: Sequence[str]) -> list[str]:
    """The selectors among `words`: `failed tasks` is `failed`. UsageError if there is none."""
    found = [word for word in words if word not in FILLERS]
    if not found:
        raise UsageError("no task selected", "Selectors are `worker`, `worker/1`, `worker/0-3`, `failed` or `all`.")
    return found


def select(status: ClusterStatus, selector: str) -> list[TaskStatus]:
    """The tasks of `status` that `selector` names. NoSuchTask if it names none that exists."""
    tasks = list(status.tasks)
    if selector == "all":
        return tasks
    if selector == "failed":
        return [task for task in tasks if task.state in FAILED_STATES or task.health == "down"]
    if selector.startswith("host:"):
        found = [task for task in tasks if task.host == selector[5:]]
    elif "/" in selector:
        job, _, index = selector.partition("/")
        first, _, last = index.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            raise UsageError(f"`{selector}` is not a selector", "Write `worker/1`, or `worker/0-3` for a range.")
        low, high = int(first), int(last or first)
        found = [task for task in tasks if task.job == job and low <= task.index <= high]
    else:
        found = [task for task in tasks if task.job == selector]
    if not found:
        names = ", ".join(dict.fromkeys(task.job for task in tasks)) or "none"
        raise NoSuchTask(f"no task `{selector}` in cluster {status.name}", f"Its job names are {names}.")
    return found


def seconds(text: str, option: str) -> float:
    """A duration given to `option`. UsageError if it is not one."""
    try:
        return parse_duration(text)
    except ValueError:
        raise UsageError(
            f"`{option} {text}` is not a duration", "Write it with its unit: 500ms, 10s, 5m, 1h."
        ) from None


def since(text: str) -> float:
    """The moment `--since` names, in seconds since the epoch: how long ago (`10m`), or a date and time."""
    try:
        return time.time() - parse_duration(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"`--since {text}` is not a time", "Write how long ago, `10m`, or when, `2026-01-31T12:00`."
        ) from None
