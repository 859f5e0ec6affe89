"""A copy of what is wanted of the cluster, which every host keeps: with it a controller that has lost its database, or
that of another machine, goes on. What hosts know by themselves (incarnations, states) is not in it.

    about         what tasks run
    spec          as it was applied
    tasks:HOST    the tasks of a host, so that a change of one goes to all hosts as a few lines
    hosts         those that are drained
    job:ID        of jobs that have not ended, and of the newest that have
    script:ID     of jobs that have not ended, but for very long ones
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dtfctl.launcher.controller.hosts.agent_link import AgentLink
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.controller.state.job_lifecycle import JobRecord
from dtfctl.launcher.controller.state.store import HostRow, TaskRow
from dtfctl.launcher.errors import NoSpace
from dtfctl.launcher.messages import codec
from dtfctl.launcher.messages.state_copy import Copy
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.files import write_whole

log = logging.getLogger(__name__)

EVERY_S = 1.0
"""Hosts are told at most so often; of a new job, or of another spec, at once."""
KEPT_JOBS = 100
"""The most jobs that have ended that are kept."""
LONGEST_SCRIPT = 2**20
MOST_SCRIPT_BYTES = 16 * 2**20
"""The most bytes of all scripts together."""


@dataclass(frozen=True, slots=True)
class About:
    task_command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Rows:
    tasks: tuple[TaskRow, ...] = ()
    hosts: tuple[HostRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Contents:
    """What a copy says."""

    about: About
    spec: ClusterSpec | None
    tasks: tuple[TaskRow, ...]
    """The tasks in no order, without incarnations."""
    hosts: tuple[HostRow, ...]
    jobs: tuple[JobRecord, ...]
    """The jobs in the order of submission."""
    scripts: dict[str, bytes]
    """The scripts by the job's id."""


def read(entries: dict[str, str]) -> Contents:
    """Read what a copy's entries hold. Raises ValueError."""
    by_host = [codec.decode(_Rows, text).tasks for key, text in entries.items() if key.startswith("tasks:")]
    jobs = [codec.decode(JobRecord, text) for key, text in entries.items() if key.startswith("job:")]
    return Contents(
        about=codec.decode(About, entries.get("about", "{}")),
        spec=codec.decode(ClusterSpec, entries["spec"]) if "spec" in entries else None,
        tasks=tuple(row for rows in by_host for row in rows),
        hosts=codec.decode(_Rows, entries.get("hosts", "{}")).hosts,
        jobs=tuple(sorted(jobs, key=lambda job: job.seq)),
        scripts={
            key.partition(":")[2]: base64.b64decode(text) for key, text in entries.items() if key.startswith("script:")
        },
    )


class CopyMaker:
    """Makes the copies. Owned by the controller's loop."""

    def __init__(self, paths: ClusterPaths, desired_state: DesiredState, epoch: int) -> None:
        self._paths = paths
        self._desired_state = desired_state
        self._epoch = epoch
        self._copy = Copy(epoch)
        self._due_at = 0.0
        self._is_old = True
        self._known: tuple[object, ...] = ()
        self._scripts: dict[str, str] = {}
        self._spec_text = ""

    def look(self, now: float, links: Sequence[AgentLink]) -> None:
        """Write a new copy, once a turn, where the last one is old, and hand it to the links."""
        desired_state = self._desired_state
        known = (desired_state.spec, len(desired_state.jobs), desired_state.task_command)
        self._is_old = self._is_old or desired_state.changed
        if known != self._known or (self._is_old and now >= self._due_at):
            self._known, self._is_old, self._due_at = known, False, now + EVERY_S
            entries = self._entries()
            if entries != self._copy.entries:
                self._copy = Copy(self._epoch, self._copy.revision + 1, entries)
                self._write_spec(entries.get("spec", ""))
        if self._copy.revision:
            for link in links:
                link.set_copy(self._copy)

    def _write_spec(self, text: str) -> None:
        if not text or text == self._spec_text:
            return
        try:
            write_whole(self._paths.spec, text.encode())
            self._spec_text = text
        except NoSpace as error:
            log.warning("no copy of the spec: %s", error.message)

    def _entries(self) -> dict[str, str]:
        desired_state = self._desired_state
        found = {"about": codec.encode(About(desired_state.task_command))}
        if desired_state.spec is not None:
            found["spec"] = codec.encode(desired_state.spec)
        by_host: dict[str, list[TaskRow]] = {}
        for row in desired_state.tasks.values():
            by_host.setdefault(row.host, []).append(replace(row, incarnation=0, failures=()))
        found.update({f"tasks:{host}": codec.encode(_Rows(tasks=tuple(rows))) for host, rows in by_host.items()})
        drained = tuple(
            HostRow(row.name, drained=True, why=row.why) for row in desired_state.hosts.values() if row.drained
        )
        found["hosts"] = codec.encode(_Rows(hosts=drained))
        ended = [job.id for job in desired_state.jobs if job.is_final]
        old = frozenset(ended[:-KEPT_JOBS])
        scripts: dict[str, str] = {}
        for job in desired_state.jobs:
            if job.id in old:
                continue
            found[f"job:{job.id}"] = codec.encode(job if job.is_final else replace(job, clients=()))
            if not job.is_final and sum(map(len, scripts.values())) < MOST_SCRIPT_BYTES:
                scripts[job.id] = self._scripts.get(job.id) or _script(Path(job.script))
        self._scripts = scripts
        found.update({f"script:{name}": text for name, text in scripts.items() if text})
        return found


def _script(path: Path) -> str:
    try:
        if path.stat().st_size > LONGEST_SCRIPT:
            return ""
        return base64.b64encode(path.read_bytes()).decode()
    except OSError as error:
        log.warning("%s is in no copy: %s", path, error)
        return ""
