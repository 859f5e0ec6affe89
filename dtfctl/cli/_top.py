"""What `top` shows: two looks at the cluster make rates; rich draws them on a terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtfctl.cli._format import columns, duration, size
from dtfctl.cli._screen import Screen
from dtfctl.cli._tables import headline, progress_words
from dtfctl.launcher.model import ClusterStatus, JobStatus, Progress, TaskStatus
from dtfctl.launcher.selectors import select as selected

if TYPE_CHECKING:
    from dtfctl.launcher.api import Cluster

REFRESH_S = 1.0
ASK_GPUS_S = 5.0
LOOK_S = 0.25
PATIENCE_S = 6.0
BAR = 10


@dataclass(frozen=True, slots=True)
class TaskRow:
    name: str
    state: str
    health: str
    host: str
    steps: int
    steps_per_s: float | None
    cpu_percent: float | None
    rss_bytes: int | None
    silence_s: float | None
    restarts: int


@dataclass(frozen=True, slots=True)
class GpuRow:
    host: str
    index: int
    name: str
    busy_percent: float
    memory_used_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class HostRow:
    name: str
    state: str
    tasks: int
    cores: int | None
    load: float | None
    memory_bytes: int | None
    memory_free_bytes: int | None
    disk_free_bytes: int | None


@dataclass(frozen=True, slots=True)
class JobRow:
    id: str
    state: str
    position: int | None
    progress: str
    steps_per_s: float | None
    remaining_s: float | None
    running_s: float | None


@dataclass(frozen=True, slots=True)
class Picture:
    """One look, with the rates since the one before."""

    headline: str
    time: float
    tasks: tuple[TaskRow, ...]
    hosts: tuple[HostRow, ...]
    gpus: tuple[GpuRow, ...]
    jobs: tuple[JobRow, ...]

    def lines(self, screen: Screen) -> list[str]:
        """Write all of it as text, in tables."""
        out = [self.headline, ""]
        for header, rows in self.tables():
            if rows:
                out += [*columns(header, rows, screen.style), ""]
        return out[:-1]

    def tables(self) -> list[tuple[list[str], list[list[str]]]]:
        """(header, rows) of each part."""
        tasks = [
            [
                row.name,
                row.health if row.state == "running" and row.health in ("suspect", "down") else row.state,
                row.host or "-",
                _rate(row.steps_per_s),
                f"{row.steps:,}",
                "-" if row.cpu_percent is None else f"{row.cpu_percent:.0f}%",
                size(row.rss_bytes),
                "-" if row.silence_s is None else f"{row.silence_s:.1f}s",
                str(row.restarts),
            ]
            for row in self.tasks
        ]
        hosts = [
            [
                row.name,
                row.state,
                str(row.tasks),
                _bar(None if row.load is None or not row.cores else row.load / row.cores),
                "-" if row.load is None else f"{row.load:.1f}/{row.cores}",
                _bar(_used(row)),
                f"{size(row.memory_free_bytes)} free",
                f"{size(row.disk_free_bytes)} free",
            ]
            for row in self.hosts
        ]
        gpus = [
            [
                f"{row.host}/{row.index}",
                row.name,
                _bar(row.busy_percent / 100),
                f"{row.busy_percent:.0f}%",
                f"{size(row.memory_used_bytes)}/{size(row.memory_bytes)}",
            ]
            for row in self.gpus
        ]
        jobs = [
            [
                row.id,
                row.state if row.position is None else f"{row.state} ({row.position})",
                row.progress or "-",
                _rate(row.steps_per_s),
                duration(row.remaining_s),
                duration(row.running_s),
            ]
            for row in self.jobs
        ]
        return [
            (["TASK", "STATE", "HOST", "STEPS/S", "STEPS", "CPU", "MEMORY", "BEAT", "RESTARTS"], tasks),
            (["JOB", "STATE", "PROGRESS", "STEPS/S", "REMAINING", "RUNS SINCE"], jobs),
            (["HOST", "STATE", "TASKS", "CPU", "LOAD", "MEMORY", "", "DISK"], hosts),
            (["GPU", "NAME", "BUSY", "", "MEMORY"], gpus),
        ]


def _rate(per_s: float | None) -> str:
    if per_s is None:
        return "-"
    return f"{per_s:,.0f}" if per_s >= 100 else f"{per_s:.1f}"


def _bar(part: float | None) -> str:
    if part is None:
        return "-"
    full = round(min(1.0, max(0.0, part)) * BAR)
    return "#" * full + "." * (BAR - full)


def _used(row: HostRow) -> float | None:
    if not row.memory_bytes or row.memory_free_bytes is None:
        return None
    return 1 - row.memory_free_bytes / row.memory_bytes


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was last reported of a task: agents report numbers every two seconds, whenever one looks."""

    incarnation: int
    steps: int
    uptime_s: float
    rate: float | None = None


class Sampler:
    """Looks at a cluster again and again."""

    def __init__(self, cluster: Cluster, selector: str) -> None:
        self._cluster = cluster
        self._selector = selector
        self._tasks: dict[str, _Seen] = {}
        self._jobs: dict[str, tuple[Progress, float | None]] = {}
        self._gpus: tuple[GpuRow, ...] = ()
        self._gpus_at = float("-inf")

    def take(self) -> Picture:
        """Look now; rates are those between the newest two reports, and unknown before the second."""
        status, now = self._cluster.status(), time.monotonic()
        chosen = selected(self._selector, status.tasks)
        self._tasks = {task.name: _seen(task, self._tasks.get(task.name)) for task in chosen}
        active = [job for job in status.jobs if not job.is_final]
        self._jobs = {
            job.id: _job_rate(job.progress, self._jobs.get(job.id)) for job in active if job.progress is not None
        }
        if now - self._gpus_at >= ASK_GPUS_S:
            self._gpus, self._gpus_at = self._ask_gpus(status), now
        return Picture(
            headline(status, Screen(no_color=True)),
            time.time(),
            tuple(
                TaskRow(
                    *(task.name, task.state, task.health, task.host, task.steps, self._tasks[task.name].rate),
                    *(task.cpu_percent, task.rss_bytes, task.silence_s, task.restarts),
                )
                for task in chosen
            ),
            tuple(
                HostRow(
                    *(host.name, host.state, host.tasks, host.cores, host.load),
                    *(host.memory_bytes, host.memory_free_bytes, host.disk_free_bytes),
                )
                for host in status.hosts
            ),
            self._gpus,
            tuple(_job_row(job, self._jobs[job.id][1] if job.id in self._jobs else None) for job in active),
        )

    def take_with_rates(self) -> Picture:
        """Look until the rate of every task that runs is known, or that would take too long."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            picture = self.take()
            known = all(row.steps_per_s is not None for row in picture.tasks if row.state == "running")
            if known or time.monotonic() >= deadline:
                return picture
            time.sleep(LOOK_S)

    def _ask_gpus(self, status: ClusterStatus) -> tuple[GpuRow, ...]:
        found = []
        for host in status.hosts:
            answer = self._cluster.inspect(host.name) if host.gpus else None
            for gpu in answer.said.gpus if answer is not None and answer.said is not None else ():
                found.append(
                    GpuRow(
                        *(host.name, gpu.index, gpu.name, gpu.busy_percent),
                        *(gpu.memory_used_bytes, gpu.memory_bytes),
                    )
                )
        return tuple(found)


def _seen(task: TaskStatus, before: _Seen | None) -> _Seen:
    uptime = task.uptime_s or 0.0
    if before is None or before.incarnation != task.incarnation or uptime < before.uptime_s:
        return _Seen(task.incarnation, task.steps, uptime)
    if uptime == before.uptime_s:
        return before
    rate = max(0.0, (task.steps - before.steps) / (uptime - before.uptime_s))
    return _Seen(task.incarnation, task.steps, uptime, rate)


def _job_rate(progress: Progress, before: tuple[Progress, float | None] | None) -> tuple[Progress, float | None]:
    if before is None:
        return progress, None
    if progress.time <= before[0].time:
        return before
    return progress, max(0.0, (progress.step - before[0].step) / (progress.time - before[0].time))


def _job_row(job: JobStatus, rate: float | None) -> JobRow:
    remaining = None
    progress = job.progress
    if progress is not None and progress.total and job.started is not None and progress.step > 0:
        # Over the whole run, which is steadier than over one second.
        spent = progress.time - job.started
        remaining = max(0.0, spent / progress.step * (progress.total - progress.step))
    running = None if job.started is None else max(0.0, time.time() - job.started)
    return JobRow(job.id, job.state, job.position, progress_words(progress), rate, remaining, running)


def run(screen: Screen, sampler: Sampler) -> int:
    """Draw until Ctrl-C or q."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    styles = {"running": "green", "up": "green", "suspect": "yellow", "down": "red", "crashed": "red", "failed": "red"}

    def drawn(picture: Picture) -> Group:
        parts: list[Text | Table] = [Text(picture.headline, style="bold")]
        for header, rows in picture.tables():
            if not rows:
                continue
            table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
            for name in header:
                table.add_column(name, no_wrap=True)
            for row in rows:
                table.add_row(*(Text(cell, style=styles.get(cell.split(" ")[0], "")) for cell in row))
            parts += [Text(""), table]
        return Group(*parts)

    console = Console(no_color=screen.no_color or bool(os.environ.get("NO_COLOR")))
    try:
        with _keys() as pressed, Live(drawn(sampler.take()), console=console, screen=True, auto_refresh=False) as live:
            while not pressed(REFRESH_S):
                live.update(drawn(sampler.take()), refresh=True)
    except KeyboardInterrupt:
        return 0
    return 0


@contextmanager
def _keys() -> Iterator[Pressed]:
    """Read single keys from stdin while it lasts, where that is a terminal."""
    if not sys.stdin.isatty():
        yield Pressed(False)
        return
    before = termios.tcgetattr(0)
    tty.setcbreak(0)
    try:
        yield Pressed(True)
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@dataclass(frozen=True, slots=True)
class Pressed:
    """Waits for a key."""

    terminal: bool

    def __call__(self, wait_s: float) -> bool:
        """Wait for that time and tell whether q was pressed in it."""
        if not self.terminal:
            time.sleep(wait_s)
            return False
        deadline = time.monotonic() + wait_s
        while (left := deadline - time.monotonic()) > 0:
            if select.select([0], [], [], left)[0] and os.read(0, 64) in (b"q", b"Q", b"\x1b"):
                return True
        return False
