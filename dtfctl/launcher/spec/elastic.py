"""Hosts that may come and go: with how few of them a cluster and its jobs do; pure functions of a spec.

A host group with `min` is elastic: up to all of its hosts, at least `min`. Workers are spread evenly over such hosts,
and those of a host that is away wait for it, or for another in its place, instead of crowding the hosts that are left.
What a job cannot do without (ps, its chief) takes a place beside others.

>>> from dtfctl.launcher.spec.model import HostGroup, HostName, TaskGroup
>>> group = HostGroup(tuple(HostName(name) for name in "abcd"), min=2)
>>> spec = ClusterSpec("c", {"ps": TaskGroup(1), "worker": TaskGroup(8)}, host_groups={"spot": group})
>>> share(spec, "worker", "spot"), share(spec, "ps", "spot"), least_tasks(spec), least_of(spec, 3)
(2, None, {'ps': 1, 'worker': 4}, 2)
>>> away(spec, {"a", "b", "c"}), away(spec, {"a"})
({'d': 'spot'}, {})
"""

from __future__ import annotations

from collections.abc import Collection

from dtfctl.launcher.spec.model import ClusterSpec, HostGroup

SPREAD_JOB = "worker"
"""The tasks of which a job may lack some."""


def is_elastic(spec: ClusterSpec) -> bool:
    """Tell whether hosts may come and go."""
    return any(is_elastic_group(group) for group in spec.host_groups.values())


def is_elastic_group(group: HostGroup) -> bool:
    """Tell whether hosts of the group may be away."""
    return group.min is not None and group.min < len(group.names)


def least_tasks(spec: ClusterSpec) -> dict[str, int]:
    """Count the tasks of each job name with which the cluster is usable: `min`, else what the fewest hosts hold."""
    return {
        job: group.min if group.min is not None else least_of(spec, group.count) if job == SPREAD_JOB else group.count
        for job, group in spec.tasks.items()
    }


def least_of(spec: ClusterSpec, workers: int) -> int:
    """Count those of `workers` that have a host when as many hosts are away as may be."""
    groups = [group for _, group in _groups_of(spec, SPREAD_JOB)]
    hosts = sum(len(group.names) for group in groups)
    least = sum(len(group.names) if group.min is None else group.min for group in groups)
    return -(-workers * least // hosts) if hosts else workers


def share(spec: ClusterSpec, job: str, group_name: str) -> int | None:
    """Count the tasks of a job name that an elastic host takes where its group has no `slots`; None: any number."""
    group = spec.host_groups[group_name]
    if job != SPREAD_JOB or not is_elastic_group(group) or group.slots is not None:
        return None
    among = [group for _, group in _groups_of(spec, job)]
    left = spec.tasks[job].count - sum(len(group.names) * group.slots for group in among if group.slots is not None)
    hosts = sum(len(group.names) for group in among if group.slots is None)
    return max(1, -(-left // max(1, hosts)))


def away(spec: ClusterSpec, up: Collection[str]) -> dict[str, str]:
    """Find hosts whose absence is no error, as enough of their group are `up`: each with its group."""
    found: dict[str, str] = {}
    for name, group in spec.host_groups.items():
        if not is_elastic_group(group):
            continue
        there = [item.name for item in group.names if item.name in up]
        if len(there) >= (group.min or 0):
            found.update((item.name, name) for item in group.names if item.name not in up)
    return found


def lacking(spec: ClusterSpec, up: Collection[str]) -> dict[str, tuple[int, int]]:
    """Find elastic groups with fewer hosts than they need: (hosts that are there, hosts that are needed)."""
    counts = {
        name: (sum(item.name in up for item in group.names), group.min or 0)
        for name, group in spec.host_groups.items()
        if is_elastic_group(group)
    }
    return {name: count for name, count in counts.items() if count[0] < count[1]}


def _groups_of(spec: ClusterSpec, job: str) -> list[tuple[str, HostGroup]]:
    """List the host groups on which a job's tasks are, spares left out."""
    wanted = spec.tasks[job].hosts if job in spec.tasks else ()
    return [
        (name, group) for name, group in spec.host_groups.items() if not group.spare and (not wanted or name in wanted)
    ]
