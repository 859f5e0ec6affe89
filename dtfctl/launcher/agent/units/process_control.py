"""The processes behind units: started, signalled, noticed when they end, found again after a former agent.

What is to be done with a process, and what its end means, is the agent's to say.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal

from dtfctl.health.monitor import HealthLimits
from dtfctl.health.restart import Ending
from dtfctl.launcher.agent.start import kept_process, launch, seeds
from dtfctl.launcher.agent.start.limits import Limits
from dtfctl.launcher.agent.units.unit import Unit
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.messages.orders import LogRules
from dtfctl.launcher.system.procfs import identify, kill_group, send_signal
from dtfctl.values import replace


class ProcessControl:
    """The processes of one agent; owned by its loop's thread."""

    def __init__(self, agent_folder: Path, selector: selectors.BaseSelector) -> None:
        """`selector` wakes the loop when a keeper ends, with the unit's name."""
        self._agent_folder = agent_folder
        self._runs = agent_folder / "runs"
        self._selector = selector
        self._seeds = seeds.Seeds(agent_folder / "seed", selector)

    def folder_of(self, unit: Unit) -> Path:
        """Name where this incarnation's keeper and task keep their files."""
        return self._runs / _folder_name(unit) / str(unit.record.incarnation)

    def start(self, unit: Unit, what: launch.Start, *, log: Path, rules: LogRules) -> None:
        """Start its process under a keeper; the record has the keeper's pid then, or when its seed has answered.

        Raises:
            NoSpace, OSError: it cannot be started.
        """
        held = self._limits(unit).hold(unit.record.cores)
        unit.record = replace(unit.record, limits=held.words)
        arguments = kept_process.prepare_start(
            self.folder_of(unit), what.command, log=log, rules=rules, held=held.arguments
        )
        unit.seed = self._seeds.seed_for(what.command, what.env)
        if unit.seed is not None:
            self._seeds.ask(unit.seed, unit.name, arguments, what.command, what.env, what.cwd)
            return
        unit.popen = kept_process.start_keeper(arguments, what.env, what.cwd)
        self._note_keeper(unit, unit.popen.pid)

    def _note_keeper(self, unit: Unit, pid: int) -> None:
        keeper = identify(pid)
        unit.record = replace(unit.record, keeper_pid=pid, keeper_ticks=keeper.start_ticks if keeper else 0)

    def watch(self, unit: Unit, limits: HealthLimits, now: float) -> None:
        """Watch a unit: from now on its keeper's end wakes the loop."""
        unit.watch(limits, now)
        if unit.record.keeper_pid:
            self._wake_at(unit, os.pidfd_open(unit.record.keeper_pid))

    def _wake_at(self, unit: Unit, fd: int) -> None:
        """Wake the loop when `fd` can be read: the unit has ended then."""
        unit.pidfd = fd
        self._selector.register(fd, selectors.EVENT_READ, unit.name)

    def hear(self, seed: seeds.Seed, unit_of: Callable[[str], Unit]) -> list[tuple[Unit, OSError | LauncherError]]:
        """Hear from a seed that a keeper runs; where it says nothing any more, start programs instead.

        Returns those that cannot be started.
        """
        heard = self._seeds.hear(seed)
        if isinstance(heard, tuple):
            name, pid, pidfd = heard
            self._note_keeper(unit_of(name), pid)
            self._wake_at(unit_of(name), pidfd)
            return []
        failed: list[tuple[Unit, OSError | LauncherError]] = []
        for name, request in heard:
            try:
                self._start_instead(unit_of(name), seed, request)
            except (OSError, LauncherError) as error:
                failed.append((unit_of(name), error))
        return failed

    def _start_instead(self, unit: Unit, seed: seeds.Seed, request: seeds.Request) -> None:
        """Start a unit as a program, unless the seed started it, and was killed before it said so.

        Should that come to light only later, one of the two keepers finds that the other one has claimed the start.
        """
        unit.seed = None
        status = kept_process.read_status(self.folder_of(unit))
        if status is not None:
            _note_pid(unit, status)
            self._wake_at(unit, _pidfd(status.keeper.pid))
            return
        unit.popen = kept_process.start_keeper(request.keeper, seed.environment_of(request), Path(request.cwd))
        self._note_keeper(unit, unit.popen.pid)
        self._wake_at(unit, os.pidfd_open(unit.popen.pid))

    def forks(self, command: Sequence[str]) -> bool:
        """Tell whether processes with this command are forks of a seed at present."""
        return self._seeds.serve(command)

    def look_at_seeds(self) -> None:
        self._seeds.look()

    def close(self) -> None:
        """Close the seeds: the agent ends, and nothing runs any more."""
        self._seeds.close()

    def resolve(self, units: Iterable[Unit]) -> bool:
        """Learn the pids of tasks whose keepers have just started; whether there was one."""
        found = False
        for unit in units:
            if not unit.is_on_its_way:
                continue
            status = kept_process.read_status(self.folder_of(unit))
            if status is not None and status.task is not None:
                _note_pid(unit, status)
                found = True
        return found

    def signal(self, unit: Unit, number: int) -> None:
        """Send a signal to the whole process group of a unit.

        Sends none where the keeper died before it started the task: that end is on its way to the loop.
        """
        if unit.seed is not None and unit.pidfd < 0:
            self._give_up(unit)
        elif unit.task is None:
            status = kept_process.wait_started(self.folder_of(unit))
            if status is not None and status.task is not None:
                _note_pid(unit, status)
        task = unit.task
        if task is None:
            return
        send_signal(task, number, group=True)
        if number == signal.SIGTERM:
            # One that is stopped would never see it.
            send_signal(task, signal.SIGCONT, group=True)

    def _give_up(self, unit: Unit) -> None:
        """Withdraw a start that its seed has not answered yet, or learn of the keeper that has begun it."""
        assert unit.seed is not None
        unit.seed.withdraw(unit.name)
        if unit.record.hung:
            unit.seed.kill()
        status = kept_process.forbid_start(self.folder_of(unit))
        if status is None:
            self._wake_at(unit, os.eventfd(1))
        else:
            _note_pid(unit, status)
            self._wake_at(unit, _pidfd(status.keeper.pid))

    def kill(self, unit: Unit) -> None:
        """Kill a keeper, and then its task, of whose end nobody is told."""
        if unit.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(unit.pidfd, signal.SIGKILL)
        if unit.task is not None:
            kill_group(unit.task)

    def end_of(self, unit: Unit) -> Ending:
        """Clear up after a keeper that has ended, and so has its task; tell how the task ended."""
        self._selector.unregister(unit.pidfd)
        status = kept_process.read_status(self.folder_of(unit))
        if status is not None and status.phase != "ended" and status.task is not None:
            kill_group(status.task)  # the keeper was killed; its task cannot write and is not watched any more
        unit.unwatch()
        return kept_process.ending_of(status)

    def find(self, unit: Unit) -> Ending | Literal["runs", "never started"]:
        """Find what became of the process that a former agent had, or was about to start: now it never will be."""
        status = kept_process.forbid_start(self.folder_of(unit))
        if status is None:
            return "never started"
        _note_pid(unit, status)
        if status.phase != "ended" and identify(status.keeper.pid) == status.keeper:
            return "runs"
        if status.phase != "ended" and status.task is not None:
            kill_group(status.task)
        return kept_process.ending_of(status)

    def out_of_memory(self, unit: Unit) -> str:
        """Say what ended a process at its limit; empty for any other end. Nothing limits it any more."""
        limits = self._limits(unit)
        killed, used = limits.release()
        status = kept_process.read_status(self.folder_of(unit))
        if status is not None and status.over_bytes:
            killed, used = True, status.over_bytes
        limit = limits.memory_bytes >> 20
        return f"out of memory: it used {used >> 20} MiB, its limit is {limit} MiB" if killed else ""

    def clear(self, unit: Unit) -> None:
        """Delete what an incarnation that has ended left."""
        import shutil

        shutil.rmtree(self.folder_of(unit), ignore_errors=True)

    def clear_all(self, unit: Unit) -> None:
        """Delete what all its incarnations left."""
        import shutil

        shutil.rmtree(self._runs / _folder_name(unit), ignore_errors=True)

    def _limits(self, unit: Unit) -> Limits:
        return Limits(self._agent_folder, unit.name, unit.record.incarnation, unit.order)


def _pidfd(pid: int) -> int:
    """Open what can be read when that process has ended, or at once if it has ended already."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return os.eventfd(1)


def _folder_name(unit: Unit) -> str:
    return unit.name.replace("/", "-").replace(":", "_")


def _note_pid(unit: Unit, status: kept_process.KeeperStatus) -> None:
    unit.record = replace(unit.record, keeper_pid=status.keeper.pid, keeper_ticks=status.keeper.start_ticks)
    if status.task is not None:
        unit.record = replace(unit.record, task_pid=status.task.pid, task_ticks=status.task.start_ticks)
        unit.resolved = True
