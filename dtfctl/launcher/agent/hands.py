"""The processes behind units: started, signalled, noticed when they end, found again after a former agent.

What is to be done with a process, and what its end means, is the agent's to say.
"""

from __future__ import annotations

import selectors
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from dtfctl.health.monitor import HealthLimits
from dtfctl.health.restart import Ending
from dtfctl.launcher.agent import launch, memory_group, processes
from dtfctl.launcher.agent.contract import LogRules, TaskOrder
from dtfctl.launcher.agent.unit import Unit
from dtfctl.launcher.procfs import identify, kill_group, send_signal
from dtfctl.values import replace


class Hands:
    """Of one agent; in its loop's thread. `selector` wakes the loop when a keeper ends, with the unit's name."""

    def __init__(self, agent_folder: Path, selector: selectors.BaseSelector) -> None:
        self._agent_folder = agent_folder
        self._runs = agent_folder / "runs"
        self._selector = selector

    def folder_of(self, unit: Unit) -> Path:
        """Where this incarnation's keeper and task keep their files."""
        return self._runs / _folder_name(unit) / str(unit.record.incarnation)

    def start(self, unit: Unit, what: launch.Start, *, log: Path, rules: LogRules) -> None:
        """Start its process under a keeper; the record then has the keeper's pid.

        Raises:
            NoSpace, OSError: it cannot be started.
        """
        limit = _memory_limit(unit)
        group = self._memory_group(unit)
        unit.popen = processes.start_keeper(
            self.folder_of(unit),
            what.command,
            log=log,
            rules=rules,
            env=what.env,
            cwd=what.cwd,
            memory_group=str(group.procs) if limit and group.make(limit) else "",
        )
        keeper = identify(unit.popen.pid)
        unit.record = replace(unit.record, keeper_pid=unit.popen.pid, keeper_ticks=keeper.start_ticks if keeper else 0)

    def watch(self, unit: Unit, limits: HealthLimits, now: float) -> None:
        """From now on its keeper's end wakes the loop."""
        unit.watch(limits, now)
        self._selector.register(unit.pidfd, selectors.EVENT_READ, unit.name)

    def resolve(self, units: Iterable[Unit]) -> bool:
        """Learn the pids of tasks whose keepers have just started; whether there was one."""
        found = False
        for unit in units:
            if not unit.record.is_alive or unit.resolved:
                continue
            status = processes.read_status(self.folder_of(unit))
            if status is not None and status.task is not None:
                _note_pid(unit, status)
                found = True
        return found

    def signal(self, unit: Unit, number: int) -> None:
        """To its whole process group. Nothing, where its keeper died before it started the task: its end is on its
        way to the loop."""
        if unit.task is None:
            status = processes.wait_started(self.folder_of(unit))
            if status is not None and status.task is not None:
                _note_pid(unit, status)
        task = unit.task
        if task is None:
            return
        send_signal(task, number, group=True)
        if number == signal.SIGTERM:
            # One that is stopped would never see it.
            send_signal(task, signal.SIGCONT, group=True)

    def end_of(self, unit: Unit) -> Ending:
        """Its keeper has ended: so has its task. How it ended."""
        self._selector.unregister(unit.pidfd)
        status = processes.read_status(self.folder_of(unit))
        if status is not None and status.phase != "ended" and status.task is not None:
            kill_group(status.task)  # the keeper was killed; its task cannot write and is not watched any more
        unit.unwatch()
        return processes.ending_of(status)

    def find(self, unit: Unit) -> Ending | Literal["runs", "never started"]:
        """What became of the process that a former agent had, or was about to start: now it never will be."""
        status = processes.forbid_start(self.folder_of(unit))
        if status is None:
            return "never started"
        if status.task is not None:
            _note_pid(unit, status)
        if status.phase != "ended" and identify(status.keeper.pid) == status.keeper:
            return "runs"
        if status.phase != "ended" and status.task is not None:
            kill_group(status.task)
        return processes.ending_of(status)

    def out_of_memory(self, unit: Unit) -> str:
        """What to say of a process that the kernel ended at its limit; empty for any other."""
        limit, group = _memory_limit(unit), self._memory_group(unit)
        if not limit or not group.exists:
            return ""
        killed, peak = group.has_killed(), group.peak_bytes()
        group.remove()
        return f"out of memory: it used {peak >> 20} MiB, its limit is {limit >> 20} MiB" if killed else ""

    def clear(self, unit: Unit) -> None:
        """Delete what an incarnation that has ended left."""
        import shutil

        shutil.rmtree(self.folder_of(unit), ignore_errors=True)

    def clear_all(self, unit: Unit) -> None:
        """Delete what all its incarnations left."""
        import shutil

        shutil.rmtree(self._runs / _folder_name(unit), ignore_errors=True)

    def _memory_group(self, unit: Unit) -> memory_group.MemoryGroup:
        return memory_group.group_of(self._agent_folder, unit.name, unit.record.incarnation)


def _folder_name(unit: Unit) -> str:
    return unit.name.replace("/", "-").replace(":", "_")


def _memory_limit(unit: Unit) -> int:
    return unit.order.memory_bytes if isinstance(unit.order, TaskOrder) else 0


def _note_pid(unit: Unit, status: processes.KeeperStatus) -> None:
    assert status.task is not None
    unit.record = replace(
        unit.record,
        keeper_pid=status.keeper.pid,
        keeper_ticks=status.keeper.start_ticks,
        task_pid=status.task.pid,
        task_ticks=status.task.start_ticks,
    )
    unit.resolved = True
