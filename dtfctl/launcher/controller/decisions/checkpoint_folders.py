"""Which hosts keep the checkpoints of which job: pure functions of the jobs, their places, and what agents report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from dtfctl.launcher.controller.state.job_lifecycle import JobRecord
from dtfctl.launcher.messages.orders import FolderOrder, FolderPeer
from dtfctl.launcher.messages.reports import FolderReport, Report
from dtfctl.launcher.spec.model import ClusterSpec

AFTER_END_S = 600.0
"""The last checkpoint of a job that has ended is brought where it belongs for so long at most."""
CONTROLLER = "the controller"


@dataclass(frozen=True, slots=True)
class Kept:
    """What the controller's machine keeps of hosts that may all be taken away at once, for others that come."""

    folders: tuple[FolderReport, ...] = ()
    addresses: Mapping[str, str] = field(default_factory=dict)
    """Where each host can ask for it."""


def folder_orders(
    spec: ClusterSpec,
    jobs: Sequence[JobRecord],
    place_of: Mapping[str, str],
    reports: Mapping[str, Report],
    lost: Collection[str],
    now: float,
    kept: Kept | None = None,
) -> dict[str, tuple[FolderOrder, ...]]:
    """Make the orders of every host for folders, and with `kept` those of the controller. None where all hosts share
    the folder, or where there is but one host."""
    hosts = [host.name for host in spec.hosts if host.name not in lost]
    if spec.is_local or spec.checkpoints.path or (len(hosts) < 2 and kept is None):
        return {}
    found: dict[str, list[FolderOrder]] = {}
    for job in jobs:
        if not job.placed or (job.is_final and is_kept(job, spec, reports, now)):
            continue
        holders = holders_of(job, spec, place_of, hosts)
        path = job.checkpoint_dir
        known = {name: _of(report, path) for name, report in reports.items()}
        # One that resumes may have run anywhere before.
        asked = hosts if job.request.resume else _hosts_of(job, place_of)
        told = [host for host in hosts if host in asked or host in holders]
        peers = {host: reports[host].address for host in told if host in reports and reports[host].address}
        begun = bool(job.request.resume) or any(report is not None and report.files for report in known.values())
        more: dict[str, tuple[FolderPeer, ...]] = {}
        if kept is not None:
            begun = begun or bool(job.starts)
            more = {host: (FolderPeer(CONTROLLER, kept.addresses.get(host, ""), "controller"),) for host in told}
            others = tuple(FolderPeer(name, at) for name, at in peers.items())
            found.setdefault(CONTROLLER, []).append(FolderOrder(path, job.id, hold=True, peers=others))
        for host in told:
            found.setdefault(host, []).append(
                FolderOrder(
                    path=path,
                    job_id=job.id,
                    hold=host in holders,
                    peers=(*(FolderPeer(name, at) for name, at in peers.items() if name != host), *more.get(host, ())),
                    gates=_gates(job, place_of, host) if begun and not job.is_final else (),
                    all_peers=len(peers) == len(told),
                )
            )
    return {host: tuple(orders) for host, orders in found.items()}


def holders_of(job: JobRecord, spec: ClusterSpec, place_of: Mapping[str, str], hosts: Sequence[str]) -> tuple[str, ...]:
    """Choose the hosts to have all checkpoints: where they are restored, and others up to `checkpoints.copies`."""
    if job.framework.name in ("dtf", "tensorflow"):
        tasks = [placed.task for placed in job.placed if placed.role == "ps"] + [job.processes[0].task]
    else:
        tasks = [placed.task for placed in job.placed]
    first = [host for task in tasks if (host := place_of.get(task, "")) in hosts]
    rest = sorted(hosts, key=lambda host: host not in _hosts_of(job, place_of))
    needed = list(dict.fromkeys(first))
    more = [host for host in rest if host not in needed][: max(0, spec.checkpoints.copies - len(needed))]
    return (*needed, *more)


def is_kept(job: JobRecord, spec: ClusterSpec, reports: Mapping[str, Report], now: float) -> bool:
    """Tell whether nothing is left to do for the checkpoints of a job that has ended."""
    if job.ended is None or not 0 <= now - job.ended < AFTER_END_S:
        return True
    known = [report for host in reports.values() if (report := _of(host, job.checkpoint_dir)) is not None]
    return now - job.ended > 5.0 and all(report.in_step or not report.files for report in known)


def acknowledged(
    job: JobRecord, copies: int, reports: Mapping[str, Report], lost: Collection[str]
) -> tuple[str, tuple[str, ...]]:
    """Find the newest checkpoint that is whole on enough hosts, and these; empty when there is none yet."""
    found = {
        host: folder for host, report in reports.items() if (folder := _of(report, job.checkpoint_dir)) is not None
    }
    where: dict[str, list[str]] = {}
    for host in sorted(found.keys() - set(lost)):
        for name in found[host].whole:
            where.setdefault(name, []).append(host)
    chief = next((client.host for client in job.clients), "")
    # What the chief would go on from counts; where it is not yet known, what anybody would.
    for folder in [found[chief]] if chief in found and chief not in lost else list(found.values()):
        for name in reversed(folder.whole):
            if len(where.get(name, ())) >= copies:
                return name, tuple(where[name])
    return "", ()


def _of(report: Report, path: str) -> FolderReport | None:
    return next((folder for folder in report.folders if folder.path == path), None)


def _hosts_of(job: JobRecord, place_of: Mapping[str, str]) -> set[str]:
    return {place_of[placed.task] for placed in job.placed if placed.task in place_of}


def _gates(job: JobRecord, place_of: Mapping[str, str], host: str) -> tuple[str, ...]:
    """List what starts on `host` only once the checkpoints are there: ps tasks, which read them, and processes."""
    mine = [placed for placed in job.placed if place_of.get(placed.task) == host]
    tasks = [placed.task for placed in mine if placed.role == "ps" and job.framework.needs_tasks]
    return (*tasks, *(f"job:{job.id}:{placed.name}" for placed in mine if placed.runs))
