"""What every host should run, as pure functions of the stored state and what agents report.

`reconcile` is idempotent: it returns whole orders, and the caller sends those that differ from what a host has.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dtfctl.health.beats import MOST_LINKS
from dtfctl.health.monitor import HealthLimits
from dtfctl.health.restart import RestartPolicy
from dtfctl.launcher.controller.decisions.checkpoint_folders import Kept, folder_orders
from dtfctl.launcher.controller.decisions.job_orders import client_orders
from dtfctl.launcher.controller.decisions.moves import failed_elsewhere
from dtfctl.launcher.controller.state.job_lifecycle import JobRecord
from dtfctl.launcher.controller.state.store import TaskRow
from dtfctl.launcher.messages.orders import FolderOrder, HostOrders, LogRules, Peer, TaskOrder, Way
from dtfctl.launcher.messages.reports import Report
from dtfctl.launcher.model import LinkStatus
from dtfctl.launcher.spec.elastic import least_tasks
from dtfctl.launcher.spec.model import ClusterSpec


@dataclass(frozen=True, slots=True)
class Desired:
    """What is wanted; all of it is in the store."""

    cluster: str
    spec: ClusterSpec
    tasks: tuple[TaskRow, ...]
    jobs: tuple[JobRecord, ...] = ()
    task_command: tuple[str, ...] = ()
    save: int = 0
    """See `HostOrders`."""
    links: tuple[LinkStatus, ...] = ()
    """What was measured between hosts."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What agents report, by host."""

    reports: Mapping[str, Report] = field(default_factory=dict)
    down: frozenset[str] = frozenset()
    """Hosts that are lost: the tasks of the others do not wait for theirs."""
    now: float = 0.0
    """The time by the wall clock."""
    kept: Kept | None = None
    """Checkpoints that the controller keeps; None: it keeps none."""


def reconcile(desired: Desired, observed: Observed) -> dict[str, HostOrders]:
    """Make the orders of every host. Epoch and revision are the sender's."""
    spec = desired.spec
    absent = left_out(spec, desired.tasks, observed.down)
    expected = tuple(row.name for row in desired.tasks if row.name not in absent)
    by_host: dict[str, list[TaskRow]] = {host.name: [] for host in spec.hosts}
    for row in desired.tasks:
        by_host.setdefault(row.host, []).append(row)
    peers = peers_of(desired.tasks, observed)
    place_of = {row.name: row.host for row in desired.tasks}
    racks = {host.name: host.rack for host in spec.hosts}
    rules = restart_policy(spec)
    folders = folders_of(desired, observed)
    return {
        host: HostOrders(
            cluster=desired.cluster,
            tasks=tuple(_task_order(spec, row) for row in rows),
            clients=tuple(
                order
                for job in desired.jobs
                if job.is_active
                for order in client_orders(desired.spec, rules, place_of, job, host)
            ),
            jobs=tuple(job.id for job in desired.jobs if not job.is_final),
            peers=tuple(peer for at, peer in peers if at != host),
            expected=expected,
            task_command=desired.task_command or (spec.python or "", "-m", "dtfctl.task"),
            restart=rules,
            health=health_limits(spec),
            logs=log_rules(desired),
            tls=spec.security.tls == "auto",
            transport=spec.runtime.transport,
            encrypt=spec.runtime.encrypt == "auto",
            bad_host_log=spec.restart.bad_host_when.log,
            lease_s=0.0 if spec.is_local else spec.health.lease,
            folders=folders.get(host, ()),
            rack=racks.get(host) or "",
            ways=ways_from(host, desired.tasks, desired.links),
            save=desired.save,
        )
        for host, rows in by_host.items()
    }


def folders_of(desired: Desired, observed: Observed) -> dict[str, tuple[FolderOrder, ...]]:
    """Make the orders for jobs' folders, of hosts and of the controller."""
    place_of = {row.name: row.host for row in desired.tasks}
    lost, now = observed.down, observed.now
    return folder_orders(desired.spec, desired.jobs, place_of, observed.reports, lost, now, observed.kept)


def left_out(spec: ClusterSpec, tasks: Sequence[TaskRow], down: Collection[str]) -> frozenset[str]:
    """Find tasks that are lost with their host, and that others go on without: their group has its `min`."""
    lost: dict[str, list[str]] = {}
    for row in tasks:
        if row.host in down:
            lost.setdefault(row.job, []).append(row.name)
    absent: set[str] = set()
    least = {job: count for job, count in least_tasks(spec).items() if count < spec.tasks[job].count}
    for job, names in lost.items():
        if job in least and spec.tasks[job].count - len(names) >= least[job]:
            absent.update(names)
    return frozenset(absent)


def ways_from(host: str, tasks: Sequence[TaskRow], links: Sequence[LinkStatus]) -> tuple[Way, ...]:
    """List what was measured of the ways from a host to those of tasks elsewhere; of many tasks the first ones."""
    rates = {link.target: link.bytes_s for link in links if link.source == host and link.bytes_s > 0}
    found = (Way(row.name, float(f"{rates[row.host]:.3g}")) for row in tasks if row.host in rates)
    return tuple(itertools.islice(found, MOST_LINKS))


def restart_policy(spec: ClusterSpec) -> RestartPolicy:
    rules = spec.restart
    return RestartPolicy(
        when=rules.when,
        attempts=rules.attempts,
        within_s=rules.within,
        first_s=rules.delay.first,
        then_s=rules.delay.then,
        factor=rules.delay.factor,
        max_s=rules.delay.max,
        jitter=rules.delay.jitter,
        healthy_after_s=rules.healthy_after,
        never_exit=rules.never_when.exit,
        never_log=rules.never_when.log,
    )


def log_rules(desired: Desired) -> LogRules:
    logs = desired.spec.logs
    folder = str(Path(logs.dir) / desired.cluster) if logs.dir else ""
    return LogRules(logs.rotate, logs.keep, logs.rate, folder)


def health_limits(spec: ClusterSpec) -> HealthLimits:
    rules = spec.health
    return HealthLimits(
        beat_s=rules.beat,
        suspect_phi=rules.suspect_phi,
        down_phi=rules.down_phi,
        pause_s=rules.pause,
        down_after_s=rules.down_after,
        busy_limit_s=rules.progress,
        startup_s=rules.startup,
        progress_s=rules.progress,
        idle_s=rules.idle,
    )


def _task_order(spec: ClusterSpec, row: TaskRow) -> TaskOrder:
    group, elsewhere = spec.tasks[row.job], failed_elsewhere(row)
    return TaskOrder(
        job=row.job,
        index=row.index,
        run=row.is_wanted and not row.move_to,
        incarnation_floor=row.incarnation,
        starts_floor=row.starts,
        restart_request=row.restart_request,
        env={**spec.env, **group.env},
        gpus=group.gpus,
        memory_bytes=group.memory or 0,
        first_port=spec.ports.first or 0,
        last_port=spec.ports.last or 0,
        grace_s=row.grace_s,
        earlier_failures=len(elsewhere),
        earlier_hosts=len(set(elsewhere)),
    )


def peers_of(tasks: Sequence[TaskRow], observed: Observed) -> list[tuple[str, Peer]]:
    """List (host, task) of all tasks of which anything is known, as the agents of their hosts say.

    One that has never been started, as its host is still being made ready, keeps nobody else from starting.
    """
    known = {
        (host, report.name): report.status
        for host, host_report in observed.reports.items()
        for report in host_report.tasks
    }
    peers = []
    for row in tasks:
        seen, is_lost = known.get((row.host, row.name)), row.host in observed.down
        if seen is not None and (seen.address or seen.state == "failed"):
            up = seen.state == "running" and seen.health != "down" and not is_lost
            reason = f"its host {row.host} is lost" if is_lost else seen.last_error or seen.state
            peers.append((row.host, Peer(row.job, row.index, seen.address, seen.incarnation, up, reason)))
        elif is_lost or not row.incarnation:
            # Nobody listens at port 0; where the task will be, follows once it is known.
            reason = f"its host {row.host} is lost" if is_lost else f"it has not been started yet on {row.host}"
            peers.append((row.host, Peer(row.job, row.index, f"{row.host}:0", row.incarnation, False, reason)))
    return peers
