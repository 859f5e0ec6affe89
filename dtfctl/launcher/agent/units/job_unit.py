"""Say what is a job's own in the life of a unit: what it waits for, its progress file, ports of its generation."""

from __future__ import annotations

import sys
from typing import ClassVar

from dtfctl.health.monitor import HealthLimits
from dtfctl.health.restart import Ending, RestartPolicy
from dtfctl.launcher.agent.start.launch import (
    Context,
    Start,
    client_start,
    interpreter,
    lent_modules,
    progress_path,
    save_path,
)
from dtfctl.launcher.agent.units import gpu_watch, resources
from dtfctl.launcher.agent.units.health_check import Finding, judge_idle, judge_progress, judge_stopped
from dtfctl.launcher.agent.units.host_units import HostUnits
from dtfctl.launcher.agent.units.lifecycle import Order, Record, ready
from dtfctl.launcher.agent.units.progress import ProgressFile
from dtfctl.launcher.agent.units.unit import Event, Unit
from dtfctl.launcher.messages.orders import ClientOrder, job_process
from dtfctl.launcher.messages.reports import ClientReport
from dtfctl.values import replace

IDLE_SHARE = 0.01
"""A process that uses less of a processor is idle: threads of torch and JAX look at their clocks, whatever it does."""
IDLE_BURST_S = 0.05
"""How much of a processor's time an idle process uses at once at the most; the kernel counts in hundredths."""


class JobUnit(Unit):
    """A process of a job (`job:ID:worker/0`), beside a task of the cluster or alone."""

    kind: ClassVar[str] = "process"
    is_forked: ClassVar[bool] = False
    order: ClientOrder | None

    def __init__(self, name: str, record: Record, state: HostUnits) -> None:
        super().__init__(name, record, state)
        found = job_process(name)
        assert found is not None
        self.job_id, self._own_task = found
        self._log_name = name
        self.progress: ProgressFile | None = None
        self.advanced_at = 0.0
        """When it last got further, or could not be expected to."""
        self.has_advanced = False
        """It has reported progress since its start."""
        self.worked_at = 0.0
        """When it last used processor time worth the name."""
        self._used_s = 0.0
        """The processor time that it has used beyond the share of an idle one."""
        self.is_suspect = False
        self.idle_s: float | None = None
        """How long it had done nothing when that was as long as it may be."""

    @property
    def slot(self) -> str:
        """The task that it works with; without one, its own name within the job."""
        return self.order.slot if self.order is not None and self.order.slot else self._own_task

    @property
    def log_name(self) -> str:
        if self.order is not None:
            self._log_name = self.order.log_name
        return self._log_name

    def ordered(self) -> Order:
        order = self.order
        assert order is not None
        return Order(
            run=order.run,
            restart_request=order.generation,
            grace_s=order.grace_s,
            why_again="all processes of its job start again",
            starts_floor=order.starts_floor,
        )

    def policy(self, default: RestartPolicy) -> RestartPolicy:
        return default if self.order is None else self.order.restart

    def may_start(self) -> bool:
        """Tell whether the job's files, packages and GPUs are there, or cannot be, and its slot's task runs."""
        order = self.order
        if order is None:
            return False
        waits_for = self._waits_for(order)
        if waits_for and waits_for != self.record.reason and self.record.state == "pending":
            self.state.set(self, replace(self.record, reason=waits_for))
        task = self.state.tasks.get(self.slot)
        runs = not order.needs_task or task is None or task.record.state == "running"
        return runs and not waits_for

    def _waits_for(self, order: ClientOrder) -> str:
        """Say what is still to come; empty where all is there, or cannot be: the start says why."""
        command = (*interpreter(order.command), sys.executable)[0]
        preparing = self.state.preparations.look(order, command, lent_modules(order.command))
        return preparing or resources.waits_for_gpus(order, self.state.tasks.values(), self._others())

    def _others(self) -> list[JobUnit]:
        return [unit for unit in self.state.jobs.values() if unit is not self]

    def claim_early(self) -> Record:
        """Claim the ports of the order's generation, as soon as the former has ended."""
        return (
            self.record if self.order is None else resources.for_generation(self.order, self.record, self.state.units())
        )

    def claim(self, record: Record) -> Record:
        if self.order is None:
            return record
        return resources.of_job_process(self.order, record, self.state.tasks.values(), self._others())

    def start_of(self, context: Context) -> Start:
        assert self.order is not None
        start = client_start(context, self.order, self.state.preparations.result(self.order), self.record.gpus)
        self.progress = self.progress or ProgressFile(progress_path(self.state.folder, self.order))
        return start

    def on_started(self) -> None:
        """Take the process for running once it is started: it serves nobody."""
        self.state.set(self, ready(self.record))

    def watch(self, limits: HealthLimits, now: float) -> None:
        super().watch(limits, now)
        self.advanced_at = self.worked_at = now
        self.has_advanced = self.is_suspect = False
        self.idle_s = None

    def on_cpu(self, used_s: float, elapsed_s: float, now: float) -> None:
        """Note that it works, where it does more than to look at its clock now and then."""
        self._used_s = min(IDLE_BURST_S, max(0.0, self._used_s + used_s - IDLE_SHARE * elapsed_s))
        if self._used_s >= IDLE_BURST_S:
            self.worked_at = now

    def find_progress(self) -> None:
        """Go on where a former agent has read its progress file, and told of it."""
        if self.order is not None:
            self.progress = ProgressFile(progress_path(self.state.folder, self.order))
            self.progress.poll()
            self.progress.take_notes()

    def tell_to_save(self) -> None:
        """Tell the process that it is to save now, as its host is about to be taken away."""
        if self.order is not None and self.record.is_alive:
            save_path(self.state.folder, self.order).touch(mode=0o600)

    def read_progress(self, now: float) -> None:
        """Read how far it says that it is, and tell what it notes."""
        if self.progress is None:
            return
        if self.progress.poll():
            self.advanced_at, self.has_advanced = now, True
        for text in self.progress.take_notes():
            self.state.happened("job.note", f"job:{self.job_id}", f"{self.slot}: {text}", self.record.incarnation)

    def on_last_words(self) -> None:
        self.read_progress(self.advanced_at)

    def judge(self, limits: HealthLimits, now: float) -> Finding | None:
        if self.record.state == "running":
            stopped = judge_stopped(self.stopped_since, limits, now)
            if stopped is not None:
                return stopped
        latest = None if self.progress is None else self.progress.latest
        if self.record.state == "running" and latest is None and self.order is not None and self.order.restart.together:
            return self._judge_idle(limits, now)
        self.idle_s = None
        if self.record.state != "running" or latest is None or not self.state.peers.is_whole():
            self.advanced_at = now
            return None
        return judge_progress(latest, now - self.advanced_at, limits, has_advanced=self.has_advanced)

    def _judge_idle(self, limits: HealthLimits, now: float) -> Finding | None:
        """Judge one that reports no progress by what it uses; where it has GPUs, these have been looked at too."""
        gpus, every_s = "", min(gpu_watch.LOOK_S, limits.progress_s / 2, limits.idle_s / 2)
        if now - self.worked_at >= every_s:
            look = self.state.gpus.look(now, every_s)
            if look is None or look.at <= self.worked_at:
                return None  # not known yet
            mine = resources.gpus_of(self, self.state.tasks.values())
            seen = {number: busy for number, busy in look.use.items() if mine is None or number in mine}
            if any(busy >= gpu_watch.BUSY_PERCENT for busy in seen.values()):
                self.worked_at = look.at
            gpus = f"GPU {', '.join(map(str, seen))}" if seen else ""
        idle_s = now - self.worked_at
        if idle_s < limits.idle_s:
            self.idle_s = None
        elif self.idle_s is None:
            self.idle_s = idle_s
        finding = judge_idle(idle_s, limits, was_suspect=self.is_suspect, gpus=gpus)
        if finding is not None:
            self.is_suspect = finding.verdict == "suspect"
        return finding

    def on_out_of_memory(self, record: Record, ending: Ending, why: str) -> tuple[Record, Ending]:
        """Give up a process that would use as much again; its whole job may be tried again by --retries."""
        if not ending.is_failure:
            return record, ending
        return replace(record, hung=why, out_of_memory=True), replace(ending, final=True)

    def event_of(self, old: Record, now: float) -> Event | None:
        if self.record.state == "stopped" and not old.is_alive:
            return None  # it is only held until all of its job may start
        return super().event_of(old, now)

    def report(self) -> ClientReport:
        """Say how it is."""
        record = self.record
        job, _, index = self._own_task.partition("/")
        return ClientReport(
            job_id=self.job_id,
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
            addresses=tuple(f"{self.state.advertise}:{port}" for port in record.ports),
            rss_bytes=None if self.stat is None else self.stat.rss_bytes,
            limits=record.limits,
            out_of_memory=record.out_of_memory,
            idle_s=self.idle_s if record.is_alive else None,
        )

    def _held_generation(self) -> int:
        """Find the generation that this host is ready to start, or has started."""
        order = self.order
        if order is None or (order.ports and self.record.ports_of != order.generation):
            return 0
        return order.generation
