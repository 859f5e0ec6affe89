"""Say what is a task's own in the life of a unit: its beats, its port, and the other tasks, which hear of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dtfctl.figures import TaskFigures
from dtfctl.health import beats
from dtfctl.health.monitor import HealthLimits, Monitor
from dtfctl.health.restart import Ending, RestartPolicy
from dtfctl.launcher.agent.start.launch import Context, Start, task_start
from dtfctl.launcher.agent.units import resources
from dtfctl.launcher.agent.units.health_check import Finding, judge_beats
from dtfctl.launcher.agent.units.host_units import HostUnits
from dtfctl.launcher.agent.units.lifecycle import Order, Record, ready
from dtfctl.launcher.agent.units.unit import Unit
from dtfctl.launcher.messages.orders import ADDRESS_IN_USE_EXIT, TaskOrder
from dtfctl.launcher.messages.reports import TaskReport
from dtfctl.launcher.model import TaskHealth, TaskLink, TaskStatus
from dtfctl.values import replace

LITTLE_CPU = 0.05
"""The share of a processor that a stuck task may use and still show no life."""


class TaskUnit(Unit):
    """A task of the cluster (`worker/1`)."""

    kind: ClassVar[str] = "task"
    is_forked: ClassVar[bool] = True
    order: TaskOrder | None

    def __init__(self, name: str, record: Record, state: HostUnits) -> None:
        super().__init__(name, record, state)
        self.monitor: Monitor | None = None
        self.health: TaskHealth = "unknown"
        self.steps = 0
        self.spared_bytes = 0
        self.links: tuple[beats.Carried, ...] = ()
        self.figures = TaskFigures()
        self.transport = ""
        self.blas = ""
        self.faults = 0
        self.unreachable: tuple[str, ...] = ()
        self._told: int | None = None
        self.stuck = ""
        """What of it does not serve, as it says itself."""

    @property
    def is_wanted(self) -> bool:
        """Whether this host is to have the task; one that was moved elsewhere may still be ending."""
        return self.order is not None

    def wanted(self) -> Order:
        if self.order is None and self.name in self.state.expected:
            return Order(run=False, grace_s=0.0, now=True)  # it was moved to another host while this one was away
        return super().wanted()

    def ordered(self) -> Order:
        order = self.order
        assert order is not None
        return Order(
            run=order.run,
            incarnation_floor=order.incarnation_floor,
            restart_request=order.restart_request,
            grace_s=order.grace_s,
            now=order.now,
            starts_floor=order.starts_floor,
        )

    def policy(self, default: RestartPolicy) -> RestartPolicy:
        order = self.order
        if order is None or not order.earlier_failures:
            return default
        return replace(default, earlier=order.earlier_failures, earlier_hosts=order.earlier_hosts)

    def may_start(self) -> bool:
        return self.state.places_known

    def claim(self, record: Record) -> Record:
        others = [unit for unit in self.state.units() if unit is not self]
        return record if self.order is None else resources.of_task(self.order, record, others)

    def start_of(self, context: Context) -> Start:
        assert self.order is not None
        return task_start(context, self.order, self.record.incarnation, self.record.gpus)

    def mark_start(self) -> None:
        super().mark_start()
        self.steps = 0
        self.spared_bytes = 0
        self.links = ()
        self.figures = TaskFigures()
        self.transport = ""
        self.blas = ""
        self.faults = 0

    def watch(self, limits: HealthLimits, now: float) -> None:
        super().watch(limits, now)
        self.health = "unknown"
        self.unreachable = ()
        self.stuck = ""
        self._told = None
        self.monitor = Monitor(limits)
        if self.record.state == "running":
            self.monitor.beat(now)

    def unwatch(self) -> None:
        super().unwatch()
        self.monitor = None
        self.health = "unknown"

    def on_cpu(self, used_s: float, elapsed_s: float, now: float) -> None:
        """Take CPU time that grows for a sign of life."""
        # The thread that says that all others are stuck needs a little, too.
        least = LITTLE_CPU * elapsed_s if self.stuck else 0.0
        if used_s > least and self.monitor is not None:
            self.monitor.working(now)

    def hear(self, beat: beats.Beat, now: float) -> bool:
        """Take its beat; whether its record changed."""
        if self.monitor is None or self.record.incarnation != beat.incarnation:
            return False
        self.stuck = beat.stuck
        if not beat.stuck:
            self.monitor.beat(now)
        self.steps, self.spared_bytes = beat.steps, beat.spared_bytes
        self.transport, self.blas, self.faults = beat.transport, beat.blas, beat.faults
        self.links, self.figures = beat.links, beat.figures
        self._tell_news(beat.news)
        if self.unreachable != beat.unreachable:
            self.unreachable, self.state.dirty = beat.unreachable, True
        if not beat.ready or self.record.state != "starting":
            return False
        self.state.set(self, ready(self.record))
        self.health = self.monitor.tick(now)
        return True

    def _tell_news(self, news: Sequence[str]) -> None:
        """Make an event of what is new; what the first beat tells to this agent was told to the one before it."""
        numbered = [(int(number), text) for number, _, text in (each.partition(" ") for each in news)]
        if self._told is not None:
            for number, text in numbered:
                if number > self._told:
                    self.state.happened("group.rerouted", self.name, text, self.record.incarnation)
        self._told = max((number for number, _ in numbered), default=0)

    def judge(self, limits: HealthLimits, now: float) -> Finding | None:
        record = self.record
        if record.state == "starting" and record.started_at is not None:
            late = now - record.started_at > limits.startup_s
            return Finding("down", f"not ready after {limits.startup_s:.0f} s") if late else None
        if record.state != "running" or self.monitor is None:
            return None
        before, self.health = self.health, self.monitor.tick(now)
        silence = self.stuck or f"no beat for {self.monitor.silence_s(now):.1f} s"
        return judge_beats(before, self.health, silence, self.stopped_since is not None, is_stuck=bool(self.stuck))

    def record_at_end(self, ending: Ending) -> Record:
        """Give the next start another port, where somebody else has this one."""
        taken = ending.exit_code == ADDRESS_IN_USE_EXIT and self.order is not None
        return replace(self.record, port=0) if taken else self.record

    def on_out_of_memory(self, record: Record, ending: Ending, why: str) -> tuple[Record, Ending]:
        return replace(record, hung=why, out_of_memory=True), replace(ending, final=False)

    def on_change(self, old: Record) -> None:
        """Tell the other tasks of the cluster that this one went down, or came up."""
        record = self.record
        if old.state == "running":
            self.state.peers.went_down(self, record.hung or record.reason or record.state)
        if record.state == "running":
            self.state.peers.came_up(self)

    def on_forgotten(self) -> None:
        if self.name not in self.state.expected:
            self.state.peers.went_away(self)

    def report(self, address: str, now: float) -> TaskReport:
        """Say how it is; `address`: where the other tasks reach it."""
        record = self.record
        job, _, index = self.name.partition("/")
        status = TaskStatus(
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
            spared_bytes=self.spared_bytes,
            transport=self.transport,
            blas=self.blas,
            faults=self.faults,
            links=tuple(
                TaskLink(link.peer, link.transport, link.encrypted, link.bytes_s, link.samples, link.codecs)
                for link in self.links
            ),
            figures=self.figures,
            silence_s=None if self.monitor is None else self.monitor.silence_s(now),
            retry_in_s=None if record.retry_at is None else max(0.0, record.retry_at - now),
            exit_code=record.exit_code,
            last_error=record.reason,
            last_lines=self.last_lines,
        )
        unreachable = self.unreachable if record.state == "running" else ()
        return TaskReport(status, record.restart_handled, unreachable)
