"""How many cores a process may use: what it is pinned to, what its control groups let it have, what it is told."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

# What tells a process how many threads it may have; the launcher shares a host's cores among its tasks that way.
TOLD_BY = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def granted() -> int:
    """Count the threads that this process may keep running at once: at least 1.

    That is the least of the cores it may run on, the cores' worth of time that its control groups get (rounded up),
    and what `OMP_NUM_THREADS` says, or `OPENBLAS_NUM_THREADS` without it.
    """
    told = next((int(v) for v in map(os.environ.get, TOLD_BY) if v and v.isdigit() and int(v)), math.inf)
    return int(min(available(), told))


def available() -> int:
    """Count as `granted` does, whatever the environment says."""
    return max(1, math.ceil(min(pinned(), quota())))


def pinned() -> int:
    """Count the cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@lru_cache(4)
def quota(proc: Path = Path("/proc/self")) -> float:
    """Tell how many cores' time this process gets: the least of its control groups and all that those are in.

    Args:
        proc: where the kernel describes the process.

    Returns:
        Infinity where nothing bounds it.
    """
    found = math.inf
    for root, group, is_second in _hierarchies(proc):
        while True:
            found = min(found, _bound(group, is_second))
            if group == root or root not in group.parents:
                break
            group = group.parent
    return found


def _hierarchies(proc: Path) -> Iterator[tuple[Path, Path, bool]]:
    """Yield where groups that bound time are mounted, the process's own, and whether they are of version 2."""
    try:
        groups = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
        mounts = [line.split(" ") for line in (proc / "mountinfo").read_text().splitlines()]
    except OSError:
        return
    for fields in mounts:
        if "-" not in fields or len(fields) < fields.index("-") + 4:
            continue
        kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
        is_second = kind == "cgroup2"
        if not is_second and (kind != "cgroup" or "cpu" not in options):
            continue
        for _, controllers, path in (g for g in groups if len(g) == 3):
            if is_second == (not controllers) and (is_second or "cpu" in controllers.split(",")):
                root = Path(_unescaped(fields[4]))
                # Of a group that is mounted without those above it, what is below it counts.
                yield root, root / os.path.relpath(path, _unescaped(fields[3])), is_second


def _unescaped(text: str) -> str:
    return text.encode().decode("unicode_escape") if "\\" in text else text


def _bound(group: Path, is_second: bool) -> float:
    try:
        if is_second:
            most, period = (group / "cpu.max").read_text().split()
        else:
            most = (group / "cpu.cfs_quota_us").read_text().strip()
            period = (group / "cpu.cfs_period_us").read_text()
        # "max", or -1 in version 1.
        return math.inf if most == "max" or int(most) <= 0 else int(most) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
