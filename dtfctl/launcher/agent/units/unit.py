"""Hold one process in the agent's hands: its record, its order, and what only a living agent knows about it.

All units live one life (`lifecycle.py`, driven by `supervisor.py`). Where a task and a job's process differ, the life
calls a hook: `task_unit.py` and `job_unit.py` say there what is theirs. In the order of a life:

    wanted, may_start, claim, start_of -> on_started -> (judge) -> on_last_words, record_at_end, on_out_of_memory
    -> on_change -> on_forgotten
"""

from __future__ import annotations

import os
import subprocess
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from dtfctl.health.monitor import HealthLimits
from dtfctl.health.restart import Ending, RestartPolicy
from dtfctl.launcher.agent.start.launch import Context, Start
from dtfctl.launcher.agent.start.seeds import Seed
from dtfctl.launcher.agent.units.lifecycle import Order, Record
from dtfctl.launcher.messages.orders import ClientOrder, TaskOrder
from dtfctl.launcher.system.procfs import ProcessId, ProcessStat, read_stat
from dtfctl.values import value

if TYPE_CHECKING:
    from dtfctl.launcher.agent.units.health_check import Finding
    from dtfctl.launcher.agent.units.host_units import HostUnits

LEASE_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL when the lease has ended: others take the tasks' places already."""
UNASKED_GRACE_S = 10.0
"""The seconds between SIGTERM and SIGKILL for what the controller has stopped speaking of."""


@value
class Event:
    """What a change of a record means to those who are told; see `messages.agent.Happening`."""

    kind: str
    reason: str
    incarnation: int
    failure: bool


class Unit(ABC):
    """A task or a job's process. Owned by the agent's loop; no other thread touches it."""

    kind: ClassVar[str]
    """The unit's kind, as events call it."""
    is_forked: ClassVar[bool]
    """A seed may start it; otherwise it is a program always."""

    def __init__(self, name: str, record: Record, state: HostUnits) -> None:
        self.name = name
        self.record = record
        self.state = state
        self.order: TaskOrder | ClientOrder | None = None
        self.pidfd = -1
        self.popen: subprocess.Popen[bytes] | None = None
        self.resolved = False
        """Whether the record has the pid of the task itself, not only its keeper's."""
        self.seed: Seed | None = None
        """Of which it is a fork, or is to be one: then its keeper's pid is not known yet."""
        self.stat: ProcessStat | None = None
        self.stat_at = 0.0
        self.cpu_percent: float | None = None
        self.stopped_since: float | None = None
        self.started_stamp = ""
        self.last_lines: tuple[str, ...] = ()

    # ------------------------------------------------------------------ where the kinds differ

    @property
    def log_name(self) -> str:
        """The name by which the log is asked for, also when nobody wants the process any more."""
        return self.name

    @abstractmethod
    def ordered(self) -> Order:
        """Say what its order wants of it; there is one."""

    @abstractmethod
    def policy(self, default: RestartPolicy) -> RestartPolicy:
        """Choose what its restarts follow, where `default` is the host's."""

    @abstractmethod
    def may_start(self) -> bool:
        """Tell whether all is there that a start needs, or what is missing never comes: the start says why."""

    def claim_early(self) -> Record:
        """Give its record what others must know before it starts; changes nothing that is alive."""
        return self.record

    @abstractmethod
    def claim(self, record: Record) -> Record:
        """Give the record of a start ports, GPUs and cores that no other unit has; or let it fail."""

    @abstractmethod
    def start_of(self, context: Context) -> Start:
        """Prepare its start: command, environment, files.

        Raises:
            LauncherError, OSError: it cannot be started.
        """

    def on_started(self) -> None:
        """Act on a start: the keeper runs, or the seed was asked for one."""
        return

    @abstractmethod
    def judge(self, limits: HealthLimits, now: float) -> Finding | None:
        """Find what has changed about its health, if anything."""

    def on_last_words(self) -> None:
        """Read what the process told before its end: it has ended."""
        return

    def record_at_end(self, ending: Ending) -> Record:
        """Take out of the record what this end has shown to be wrong."""
        return self.record

    @abstractmethod
    def on_out_of_memory(self, record: Record, ending: Ending, why: str) -> tuple[Record, Ending]:
        """Mark the record and the ending as those of a unit that its limit has ended."""

    def on_change(self, old: Record) -> None:
        """Act on a state or an incarnation that is another than in `old`."""
        return

    def on_forgotten(self) -> None:
        """Act on a unit that has ended and that nobody wants to know about any more."""
        return

    def on_cpu(self, used_s: float, elapsed_s: float, now: float) -> None:
        """Act on this much CPU time having been used in that time."""
        return

    # ------------------------------------------------------------------ what all have

    @property
    def is_on_its_way(self) -> bool:
        """Whether the keeper runs, and will say soon which process the task is."""
        return self.record.is_alive and self.record.keeper_pid != 0 and not self.resolved

    @property
    def task(self) -> ProcessId | None:
        if self.record.task_pid == 0:
            return None
        return ProcessId(self.record.task_pid, self.record.task_ticks)

    def wanted(self) -> Order:
        """Say what is wanted of it; without an order of the controller, that it ends."""
        state = self.state
        if state.is_cut_off:
            return Order(run=False, grace_s=LEASE_GRACE_S, why="stopped: its host was cut off from the controller")
        if state.shutdown_grace_s is not None:
            return Order(run=False, grace_s=state.shutdown_grace_s)
        return Order(run=False, grace_s=UNASKED_GRACE_S) if self.order is None else self.ordered()

    def event_of(self, old: Record, now: float) -> Event | None:
        """Say what happened between `old` and its record as it is now."""
        record = self.record
        failed = record.history != old.history
        if record.state == "pending":
            if not old.is_alive:
                return None
            wait = 0.0 if record.retry_at is None else max(0.0, record.retry_at - now)
            return Event(
                f"{self.kind}.ended", f"{record.reason}; starts again in {wait:.1f} s", old.incarnation, failed
            )
        text = record.hung if record.state == "stopping" else record.reason
        return Event(f"{self.kind}.{record.state}", text, record.incarnation, failed and not record.is_alive)

    def watch(self, limits: HealthLimits, now: float) -> None:
        """Begin to watch a process that has just been started or adopted."""
        self.stat = None
        self.cpu_percent = None
        self.stopped_since = None

    def unwatch(self) -> None:
        """Let go of a process that has ended."""
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        if self.popen is not None:
            self.popen.wait()
            self.popen = None
        if self.seed is not None:
            self.seed.release(self.name)
            self.seed = None
        self.stat = None
        self.cpu_percent = None
        self.stopped_since = None
        self.resolved = False

    def look(self, now: float) -> None:
        """Read the process's numbers."""
        task = self.task
        if task is None:
            return
        stat = read_stat(task.pid)
        if stat is None or stat.id != task:
            return
        if self.stat is not None and now > self.stat_at:
            used, elapsed = stat.cpu_s - self.stat.cpu_s, now - self.stat_at
            self.cpu_percent = 100.0 * used / elapsed
            if stat.state != "T":
                self.on_cpu(used, elapsed, now)
        self.stat, self.stat_at = stat, now
        if stat.state != "T":
            self.stopped_since = None
        elif self.stopped_since is None:
            self.stopped_since = now

    def mark_start(self) -> None:
        """Forget the numbers of the former incarnation, and note when this one began."""
        second = time.time()
        whole = int(second)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        self.started_stamp = f"{stamp}.{int((second - whole) * 1000):03d}Z"
        self.last_lines = ()
