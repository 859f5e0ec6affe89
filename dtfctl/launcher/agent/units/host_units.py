"""Hold what all units of a host share: the orders, the units by name, and those who are told about them."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dtfctl.launcher.agent.start import launch
from dtfctl.launcher.agent.start.preparations import Preparations
from dtfctl.launcher.agent.tell.peers import PeerBoard
from dtfctl.launcher.agent.tell.reports import Reports
from dtfctl.launcher.agent.tell.task_socket import TaskSocket
from dtfctl.launcher.agent.units.gpu_watch import GpuWatch
from dtfctl.launcher.agent.units.lifecycle import Record
from dtfctl.launcher.errors import NoSuchTask
from dtfctl.launcher.messages.orders import HostOrders, job_process
from dtfctl.launcher.messages.reports import Report
from dtfctl.launcher.paths import environments_of
from dtfctl.launcher.system.host_facts import usable_cores
from dtfctl.values import replace

if TYPE_CHECKING:
    from dtfctl.launcher.agent.units.job_unit import JobUnit
    from dtfctl.launcher.agent.units.task_unit import TaskUnit
    from dtfctl.launcher.agent.units.unit import Unit
    from dtfctl.launcher.checkpoints.folders import Folders
    from dtfctl.launcher.identity.keyring import Keyring

log = logging.getLogger(__name__)


class HostUnits:
    """Owned by the agent's loop; no other thread touches it, except `reports` and the files of `preparations`."""

    def __init__(
        self,
        host: str,
        folder: Path,
        log_folder: Path,
        keyring: Keyring,
        advertise: str,
        sockets: Path,
        wake: Callable[[], None],
    ) -> None:
        """`sockets`: the folder of the tasks' sockets. `wake` makes the agent's loop turn, from any thread."""
        self.host = host
        self.folder = folder
        self.log_folder = log_folder
        self.advertise = advertise
        self.keyring = keyring
        self.boot = os.urandom(8).hex()
        """Names this life of the agent."""
        self.address = ""
        """Where other hosts reach this agent."""
        self.orders = HostOrders()
        self.expected: frozenset[str] = frozenset()
        """The tasks of the whole cluster."""
        self.tasks: dict[str, TaskUnit] = {}
        self.jobs: dict[str, JobUnit] = {}
        """The processes of jobs, each by its own name."""
        self.shutdown_grace_s: float | None = None
        """Not None: everything is to end."""
        self.is_told = False
        """The controller has spoken to this agent."""
        self.is_cut_off = False
        """The lease has ended."""
        self.places_known = False
        """Every task of the cluster has an address, or has given up finding one."""
        self.dirty = False
        """There is something to publish."""
        self.reports = Reports(Report(host, self.boot, os.getpid()))
        self.socket = TaskSocket(sockets)
        self.peers = PeerBoard(self.socket, self.tasks, advertise)
        self.preparations = Preparations(folder, environments_of(folder.absolute()), wake)
        self.gpus = GpuWatch()
        self.folders: Folders | None = None
        """Of jobs' checkpoints, once there are any."""
        self._cores = usable_cores()

    def units(self) -> Iterator[Unit]:
        """Go through all tasks, then all processes of jobs."""
        return itertools.chain(self.tasks.values(), self.jobs.values())

    def unit(self, name: str) -> Unit | None:
        """Find a task (`worker/1`) or a job's process (`job:ID:worker/0`)."""
        return self.tasks.get(name) or self.jobs.get(name)

    def forget(self, name: str) -> None:
        """Drop a unit that has ended."""
        self.tasks.pop(name, None)
        self.jobs.pop(name, None)

    def set(self, unit: Unit, record: Record) -> None:
        """Change a unit's record, and tell."""
        old, unit.record = unit.record, record
        self.tell(unit, old)

    def tell(self, unit: Unit, old: Record) -> None:
        """Tell the controller, and whom the unit's kind knows, what the change from `old` means."""
        self.dirty = True
        if old.state == unit.record.state and old.incarnation == unit.record.incarnation:
            return
        event = unit.event_of(old, time.monotonic())
        if event is not None:
            self.happened(event.kind, unit.name, event.reason, event.incarnation, event.failure)
        unit.on_change(old)

    def happened(self, kind: str, subject: str, reason: str = "", incarnation: int = 0, failure: bool = False) -> None:
        """Tell the controller, and the log."""
        self.reports.happened(kind, subject, reason, incarnation, failure)
        self.dirty = True
        log.info("%s %s %s", kind, subject, reason)

    def context(self, run_folder: Path) -> launch.Context:
        """Collect what every start on this host shares, for a start whose files lie in `run_folder`."""
        return launch.Context(
            self.folder,
            run_folder,
            self.socket,
            self.orders,
            self.peers.addresses(),
            self._cores,
            self.keyring,
            {name: task.record.gpus for name, task in self.tasks.items()},
        )

    def log_of(self, process: str) -> Path:
        """Find the log file of `worker/1`, `job:ID.UID:worker/0` or `agent`."""
        folder = Path(self.orders.logs.folder or self.log_folder).expanduser()
        of_job = job_process(process)
        if of_job is not None:
            key, task = of_job
            return folder / "jobs" / key / f"{task.replace('/', '-')}.log"
        return folder / f"{process.replace('/', '-')}.log"

    def delete_logs(self) -> None:
        """Delete those of all processes that this host has had, and of this agent."""
        import shutil

        for folder in {self.log_folder, Path(self.orders.logs.folder or self.log_folder).expanduser()}:
            shutil.rmtree(folder, ignore_errors=True)

    def surroundings(self, process: str, job_folder: str = "") -> launch.Surroundings:
        """Find where a command runs that is to be beside `worker/1` or `job:ID:worker/0`, or on the host ("").

        A job that has ended has left its folder: `job_folder`, or its own copy.

        Raises:
            NoSuchTask: this host has no such process.
        """
        context = self.context(self.folder)
        if not process:
            found = launch.surroundings(context, None, ())
            return replace(found, env={**found.env, "DTFCTL_LOGS": str(self.log_folder)})
        unit = self.unit(process)
        of_job = job_process(process)
        copy = self.preparations.folder_of(of_job[0]) if of_job is not None else None
        if (job_folder or copy) and (unit is None or unit.order is None):
            return launch.surroundings(context, None, (), job_folder, copy)
        if unit is None or unit.order is None:
            raise NoSuchTask(f"{process} is not on host {self.host}", "look with: dtfctl status")
        return launch.surroundings(context, unit.order, unit.record.gpus, copy=copy)
