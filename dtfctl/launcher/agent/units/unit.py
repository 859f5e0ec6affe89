"""One process in the agent's hands: its record, its order, and what only a living agent knows about it."""

from __future__ import annotations

import os
import subprocess
import time

from dtfctl.health.monitor import HealthLimits, Monitor
from dtfctl.health.restart import RestartPolicy
from dtfctl.launcher.agent.start.seeds import Seed
from dtfctl.launcher.agent.units.lifecycle import Order, Record
from dtfctl.launcher.agent.units.progress import ProgressFile
from dtfctl.launcher.messages.orders import ClientOrder, TaskOrder
from dtfctl.launcher.messages.reports import ClientReport, TaskReport
from dtfctl.launcher.model import TaskHealth
from dtfctl.launcher.system.procfs import ProcessId, ProcessStat, read_stat
from dtfctl.values import replace

LITTLE_CPU = 0.05
"""Of a processor."""


class Unit:
    """A task or a job's process. Owned by the agent's loop; no other thread touches it."""

    def __init__(self, name: str, record: Record) -> None:
        self.name = name
        self.record = record
        self._log_name = name
        self.order: TaskOrder | ClientOrder | None = None
        self.pidfd = -1
        self.popen: subprocess.Popen[bytes] | None = None
        self.resolved = False
        """Whether the record has the pid of the task itself, not only its keeper's."""
        self.seed: Seed | None = None
        """Of which it is a fork, or is to be one: then its keeper's pid is not known yet."""
        self.monitor: Monitor | None = None
        self.health: TaskHealth = "unknown"
        self.steps = 0
        self.transport = ""
        self.blas = ""
        self.faults = 0
        self.stat: ProcessStat | None = None
        self.stat_at = 0.0
        self.cpu_percent: float | None = None
        self.stopped_since: float | None = None
        self.started_stamp = ""
        self.last_lines: tuple[str, ...] = ()
        self.progress: ProgressFile | None = None
        self.advanced_at = 0.0
        """When it last got further, or could not be expected to."""
        self.has_advanced = False
        """It has reported progress since its start."""
        self.unreachable: tuple[str, ...] = ()
        self.stuck = ""
        """What of it does not serve, as it says itself."""

    @property
    def is_task(self) -> bool:
        return not self.name.startswith("job:")

    @property
    def task_name(self) -> str:
        """`worker/1`: itself, or the task that this process works with."""
        if isinstance(self.order, ClientOrder) and self.order.slot:
            return self.order.slot
        return self.name.rpartition(":")[2]

    @property
    def log_name(self) -> str:
        """What its log is asked for by, also when nobody wants the process any more."""
        if isinstance(self.order, ClientOrder):
            self._log_name = self.order.log_name
        return self._log_name

    @property
    def is_on_its_way(self) -> bool:
        """Its keeper runs, and will say soon which process the task is."""
        return self.record.is_alive and self.record.keeper_pid != 0 and not self.resolved

    @property
    def task(self) -> ProcessId | None:
        if self.record.task_pid == 0:
            return None
        return ProcessId(self.record.task_pid, self.record.task_ticks)

    def lifecycle_order(self, shutdown_grace_s: float | None) -> Order:
        """What is wanted of it; without an order of the controller, that it ends."""
        order = self.order
        if order is None or shutdown_grace_s is not None:
            grace = shutdown_grace_s if shutdown_grace_s is not None else getattr(order, "grace_s", 10.0)
            return Order(run=False, grace_s=grace)
        if isinstance(order, TaskOrder):
            return Order(order.run, order.incarnation_floor, order.restart_request, order.grace_s, order.now)
        return Order(order.run, restart_request=order.generation, grace_s=order.grace_s)

    def policy(self, default: RestartPolicy) -> RestartPolicy:
        if isinstance(self.order, ClientOrder):
            return self.order.restart
        earlier = self.order.earlier_failures if self.order is not None else 0
        return replace(default, attempts=max(0, default.attempts - earlier)) if earlier else default

    def watch(self, limits: HealthLimits, now: float) -> None:
        """Begin to watch a process that has just been started or adopted."""
        self.health = "unknown"
        self.stat = None
        self.cpu_percent = None
        self.stopped_since = None
        self.advanced_at = now
        self.has_advanced = False
        self.unreachable = ()
        self.stuck = ""
        self.monitor = Monitor(limits) if self.is_task else None
        if self.monitor is not None and self.record.state == "running":
            self.monitor.beat(now)

    def unwatch(self) -> None:
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        if self.popen is not None:
            self.popen.wait()
            self.popen = None
        if self.seed is not None:
            self.seed.release(self.name)
            self.seed = None
        self.monitor = None
        self.health = "unknown"
        self.stat = None
        self.cpu_percent = None
        self.stopped_since = None
        self.resolved = False

    def look(self, now: float) -> None:
        """Read the process's numbers; CPU time that grows is a sign of life."""
        task = self.task
        if task is None:
            return
        stat = read_stat(task.pid)
        if stat is None or stat.id != task:
            return
        if self.stat is not None and now > self.stat_at:
            used = stat.cpu_s - self.stat.cpu_s
            self.cpu_percent = 100.0 * used / (now - self.stat_at)
            # The thread that says that all others are stuck needs a little, too.
            least = LITTLE_CPU * (now - self.stat_at) if self.stuck else 0.0
            if used > least and self.monitor is not None and stat.state != "T":
                self.monitor.working(now)
        self.stat, self.stat_at = stat, now
        if stat.state != "T":
            self.stopped_since = None
        elif self.stopped_since is None:
            self.stopped_since = now

    def mark_start(self) -> None:
        second = time.time()
        whole = int(second)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        self.started_stamp = f"{stamp}.{int((second - whole) * 1000):03d}Z"
        self.steps = 0
        self.transport = ""
        self.blas = ""
        self.faults = 0
        self.last_lines = ()

    def task_report(self, address: str, now: float) -> TaskReport:
        record = self.record
        job, _, index = self.name.partition("/")
        return TaskReport(
            job=job,
            index=int(index),
            state=record.state,
            health=self.health,
            pid=record.task_pid or None,
            address=address,
            incarnation=record.incarnation,
            restarts=record.restarts,
            uptime_s=None if record.started_at is None else now - record.started_at,
            cpu_percent=self.cpu_percent,
            rss_bytes=None if self.stat is None else self.stat.rss_bytes,
            steps=self.steps,
            transport=self.transport,
            blas=self.blas,
            faults=self.faults,
            silence_s=None if self.monitor is None else self.monitor.silence_s(now),
            retry_in_s=None if record.retry_at is None else max(0.0, record.retry_at - now),
            exit_code=record.exit_code,
            last_error=record.reason,
            last_lines=self.last_lines,
            restart_handled=record.restart_handled,
            unreachable=self.unreachable if record.state == "running" else (),
        )

    def _held_generation(self) -> int:
        """The generation that this host is ready to start, or has started."""
        order = self.order
        if not isinstance(order, ClientOrder) or (order.ports and self.record.ports_of != order.generation):
            return 0
        return order.generation

    def client_report(self, advertise: str) -> ClientReport:
        _, job_id, task = self.name.split(":")
        job, _, index = task.partition("/")
        record = self.record
        return ClientReport(
            job_id=job_id,
            job=job,
            index=int(index),
            state=record.state,
            pid=record.task_pid or None,
            exit_code=record.exit_code,
            restarts=record.restarts,
            last_error=record.reason,
            last_lines=self.last_lines,
            progress=None if self.progress is None else self.progress.latest,
            generation=record.restart_handled if record.incarnation else 0,
            held=self._held_generation(),
            addresses=tuple(f"{advertise}:{port}" for port in record.ports),
            rss_bytes=None if self.stat is None else self.stat.rss_bytes,
            limits=record.limits,
            out_of_memory=record.out_of_memory,
        )
