"""What every host should run, as pure functions of the stored state and what agents report.

`reconcile` is idempotent: it returns whole orders, and the caller sends those that differ from what a host has.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dtfctl.health.monitor import HealthLimits
from dtfctl.health.restart import RestartPolicy
from dtfctl.launcher.agent.contract import (
    RETRYABLE_EXIT,
    ClientOrder,
    HostOrders,
    LogRules,
    Peer,
    Report,
    TaskOrder,
)
from dtfctl.launcher.controller.jobs import JobRecord
from dtfctl.launcher.controller.store import TaskRow
from dtfctl.launcher.errors import SpecError
from dtfctl.launcher.spec.model import ClusterSpec

JOB_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Desired:
    """What is wanted; all of it is in the store."""

    cluster: str
    spec: ClusterSpec
    tasks: tuple[TaskRow, ...]
    jobs: tuple[JobRecord, ...] = ()
    task_command: tuple[str, ...] = ()
    tls_folder: str = ""


@dataclass(frozen=True, slots=True)
class Observed:
    """What agents report, by host."""

    reports: Mapping[str, Report] = field(default_factory=dict)


def place(spec: ClusterSpec) -> dict[str, str]:
    """A host for every task: groups in turn, spread over hosts or packed, within the hosts' slots.

    Raises:
        SpecError: there are not enough slots.
    """
    used: dict[str, int] = {}
    placed: dict[str, str] = {}
    for job, group in spec.tasks.items():
        hosts = [h for h in spec.hosts if not h.spare and (not group.hosts or h.group in group.hosts)]
        for index in range(group.count):
            free = [h for h in hosts if h.slots is None or used.get(h.name, 0) < h.slots]
            if not free:
                raise SpecError(
                    f"no slot is left for {job}/{index}: {len(hosts)} hosts with "
                    f"{sum(h.slots or 0 for h in hosts)} slots",
                    "give hosts more slots, or ask for fewer tasks",
                )
            if group.spread == "pack":
                host = free[0]
            else:
                host = min(free, key=lambda h: used.get(h.name, 0))
            used[host.name] = used.get(host.name, 0) + 1
            placed[f"{job}/{index}"] = host.name
    return placed


def reconcile(desired: Desired, observed: Observed) -> dict[str, HostOrders]:
    """The orders of every host. Epoch and revision are the sender's."""
    hosts = sorted({row.host for row in desired.tasks})
    expected = tuple(row.name for row in desired.tasks)
    return {
        host: HostOrders(
            cluster=desired.cluster,
            tasks=tuple(_task_order(desired.spec, row) for row in desired.tasks if row.host == host),
            clients=tuple(
                order for job in desired.jobs if job.is_active for order in _client_orders(desired, job, host)
            ),
            peers=_peers(desired.tasks, observed, host),
            expected=expected,
            task_command=desired.task_command or (desired.spec.python or sys.executable, "-m", "dtfctl.task"),
            restart=restart_policy(desired.spec),
            health=health_limits(desired.spec),
            logs=log_rules(desired),
            tls_folder=desired.tls_folder if desired.spec.security.tls == "auto" else "",
        )
        for host in hosts
    }


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
    folder = str(Path(logs.dir).expanduser() / desired.cluster) if logs.dir else ""
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
    )


def _task_order(spec: ClusterSpec, row: TaskRow) -> TaskOrder:
    group = spec.tasks[row.job]
    return TaskOrder(
        job=row.job,
        index=row.index,
        run=row.run,
        incarnation_floor=row.incarnation,
        restart_request=row.restart_request,
        env={**spec.env, **group.env},
        gpus=group.gpus,
        memory_bytes=group.memory or 0,
        first_port=spec.ports.first or 0,
        last_port=spec.ports.last or 0,
        grace_s=row.grace_s,
    )


def _client_orders(desired: Desired, job: JobRecord, host: str) -> list[ClientOrder]:
    spec, request = desired.spec, job.request
    place_of = {row.name: row.host for row in desired.tasks}
    rules = restart_policy(spec)
    policy = RestartPolicy(
        when="failure",
        attempts=max(rules.attempts, request.retries),
        within_s=rules.within_s,
        first_s=rules.first_s,
        then_s=rules.then_s,
        factor=rules.factor,
        max_s=rules.max_s,
        jitter=rules.jitter,
        healthy_after_s=rules.healthy_after_s,
        never_exit=rules.never_exit,
        never_log=rules.never_log,
        limited=request.retries == 0,
        only_exit=(RETRYABLE_EXIT,),
    )
    orders = []
    for name in job.tasks:
        if place_of.get(name) != host:
            continue
        task_job, _, index = name.partition("/")
        command: tuple[str, ...] = (job.script, *request.args)
        if request.framework != "command":
            command = (spec.python or sys.executable, *command)
        orders.append(
            ClientOrder(
                job_id=job.id,
                job=task_job,
                index=int(index),
                run=job.ending is None,
                chief=name == job.tasks[0],
                command=command,
                env={**spec.env, **_job_environment(desired, job), **request.env},
                cwd=request.cwd or job.folder,
                restart=policy,
                grace_s=min(job.grace_s, JOB_GRACE_S) if _was_failed(job) else job.grace_s,
            )
        )
    return orders


def _was_failed(job: JobRecord) -> bool:
    return job.ending is not None and job.ending.state == "failed"


def _job_environment(desired: Desired, job: JobRecord) -> dict[str, str]:
    recovery = desired.spec.recovery
    env = {
        "DTF_CHECKPOINT_DIR": job.checkpoint_dir,
        "DTF_CHECKPOINT_KEEP": str(recovery.keep),
        "DTF_REPLICATION": job.request.replication,
        "DTF_RETRYABLE_EXIT": str(RETRYABLE_EXIT),
    }
    if recovery.every.seconds is not None:
        env["DTF_CHECKPOINT_SECONDS"] = str(recovery.every.seconds)
    if recovery.every.steps is not None:
        env["DTF_CHECKPOINT_STEPS"] = str(recovery.every.steps)
    return env


def _peers(tasks: Sequence[TaskRow], observed: Observed, host: str) -> tuple[Peer, ...]:
    """Tasks of other hosts, with what their agents say about them."""
    known = {
        report.name: report
        for other, host_report in observed.reports.items()
        if other != host
        for report in host_report.tasks
    }
    peers = []
    for row in tasks:
        seen = known.get(row.name)
        if row.host == host or seen is None or not (seen.address or seen.state == "failed"):
            continue
        up = seen.state == "running" and seen.health != "down"
        peers.append(Peer(row.job, row.index, seen.address, seen.incarnation, up, seen.last_error or seen.state))
    return tuple(peers)
