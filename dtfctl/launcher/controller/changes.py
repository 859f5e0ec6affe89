"""What a new spec means for a cluster that may be running."""

from __future__ import annotations

from dataclasses import replace

from dtfctl.launcher.spec.model import ClusterSpec


def structure_of(spec: ClusterSpec) -> ClusterSpec:
    """The part of a spec that cannot change while tasks run; policies and log rules can."""
    blank = ClusterSpec(cluster=spec.cluster, tasks={})
    return replace(
        spec,
        restart=blank.restart,
        health=blank.health,
        quarantine=blank.quarantine,
        logs=blank.logs,
        recovery=blank.recovery,
    )


def describe_changes(before: ClusterSpec | None, after: ClusterSpec, placed: dict[str, str]) -> list[str]:
    """One line for each thing that `up` does or changes."""
    if before is None:
        return [f"start {name} on {host}" for name, host in placed.items()]
    if before == after:
        return []
    changes = []
    for name in sorted(set(before.task_names) | set(after.task_names)):
        if name not in before.task_names:
            changes.append(f"add {name}")
        elif name not in after.task_names:
            changes.append(f"remove {name}")
    for field_name in ClusterSpec.__dataclass_fields__:
        if field_name == "tasks" and changes:
            continue
        if getattr(before, field_name) != getattr(after, field_name):
            changes.append(f"change {field_name}")
    return changes
