"""All units of an agent: what is wanted of them and what they are, on disk before anything is done about it.

So a new agent finds every process of a killed one. Owned by the agent's loop; the processes themselves are in the care
of `process_control.py`, and what is to happen next to each is decided by `lifecycle.py`.
"""

from __future__ import annotations

import logging
import math
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dtfctl import guard
from dtfctl.health import beats
from dtfctl.health.restart import Ending
from dtfctl.launcher.agent.start import launch, logs
from dtfctl.launcher.agent.start.keyring import Keyring
from dtfctl.launcher.agent.start.preparations import Preparations
from dtfctl.launcher.agent.start.seeds import Seed
from dtfctl.launcher.agent.tell.events import news_of
from dtfctl.launcher.agent.tell.peers import PeerBoard
from dtfctl.launcher.agent.tell.reports import Reports, compose
from dtfctl.launcher.agent.tell.task_socket import TaskLine
from dtfctl.launcher.agent.units import resources, state_file
from dtfctl.launcher.agent.units.lifecycle import (
    Action,
    Order,
    Record,
    advance,
    cannot_start,
    ended,
    next_time,
    postponed,
    ready,
)
from dtfctl.launcher.agent.units.process_control import Hands
from dtfctl.launcher.agent.units.progress import ProgressFile
from dtfctl.launcher.agent.units.start_budget import FORK, PROGRAM, StartBudget
from dtfctl.launcher.agent.units.unit import Unit
from dtfctl.launcher.errors import LauncherError, NoSpace, NoSuchTask
from dtfctl.launcher.messages.deltas import complete, remembered
from dtfctl.launcher.messages.orders import ADDRESS_IN_USE_EXIT, ClientOrder, HostOrders, TaskOrder
from dtfctl.launcher.messages.reports import Report
from dtfctl.launcher.paths import environments_of, make_socket_folder
from dtfctl.launcher.system.files import private_folder
from dtfctl.launcher.system.host_facts import HostFacts, usable_cores
from dtfctl.values import replace

if TYPE_CHECKING:
    from dtfctl.launcher.checkpoints.folders import Folders

log = logging.getLogger(__name__)

RESOLVE_S = 0.01
"""How often a new keeper's status file is looked at until it names the task's pid."""
ADOPTED_GRACE_S = 10.0
"""For what still runs when the agent that was told to stop it has died."""
LEASE_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL when the lease has ended: others take the tasks' places already."""


class Roster:
    """Orders and records of one host; turns the first into the second."""

    def __init__(
        self,
        host: str,
        folder: Path,
        log_folder: Path,
        keyring: Keyring,
        advertise: str,
        selector: selectors.BaseSelector,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`wake` makes the agent's loop turn; it is called from other threads."""
        self.host = host
        self.folder = folder
        self.log_folder = log_folder
        self.advertise = advertise
        self.boot = os.urandom(8).hex()
        self.reports = Reports(Report(host, self.boot, os.getpid()))
        self.orders = HostOrders()
        self.units: dict[str, Unit] = {}
        self.problem = ""
        """What keeps the state from being stored; empty when nothing does."""
        self.shutdown_grace_s: float | None = None
        """Not None: everything is to end."""
        self.is_told = False
        """The controller has spoken to this agent."""
        self.is_cut_off = False
        """The lease has ended."""
        self.dirty = False
        """There is something to publish."""
        self.waiting_starts = False
        """Some process could start, had not so many just been started."""
        self.starts = StartBudget()
        self.hands = Hands(folder, selector)
        self.preparations = Preparations(folder, environments_of(folder.absolute()), wake)
        self._expected: frozenset[str] = frozenset()
        self._keyring = keyring
        self.folders: Folders | None = None
        """Of jobs' checkpoints, once there are any."""
        self.address = ""
        """Of this agent, as other hosts reach it."""
        self._cores = usable_cores()
        self._state_file = folder / state_file.FILE
        saved = state_file.load(self._state_file)
        self._sockets = Path(saved.socket_folder) if saved.socket_folder else make_socket_folder(folder)
        private_folder(self._sockets)
        self.line = TaskLine(self._sockets)
        self.peers = PeerBoard(self.line, self.units, advertise)
        self._adopt(saved)

    def take(self, orders: HostOrders) -> None:
        """From now on this is wanted, of which the changes may be all that is told."""
        orders = remembered(self.orders, complete(self.orders, orders))
        for job_id in sorted(set(self.orders.jobs) - set(orders.jobs)):
            self.peers.job_ended(job_id)
        ended = {order.name for order in self.orders.clients} - {order.name for order in orders.clients}
        self.orders = orders
        self._expected = frozenset(orders.expected)
        wanted: dict[str, TaskOrder | ClientOrder] = {order.name: order for order in orders.tasks}
        wanted |= {order.name: order for order in orders.clients}
        for name in wanted:
            if name not in self.units:
                self.units[name] = Unit(name, Record())
        for name, unit in self.units.items():
            unit.order = wanted.get(name)
        self.preparations.keep(orders.clients)
        self._take_folders()
        for unit, record in resources.first_ports(self.units.values()):
            self.set(unit, record)
        self.peers.update(orders.peers, orders.expected)
        self.dirty = True
        if ended:
            self.save_or_note()  # what their environments held leaves this host with them

    def _take_folders(self) -> None:
        if self.folders is None:
            if not self.orders.folders:
                return
            # Imported by the first who needs it: most agents' starts do not.
            from dtfctl.launcher.checkpoints.folders import Folders

            self.folders = Folders(self._keyring.of_agent(), self.reports.tell)
        try:
            self.folders.take(self.orders.folders, self.orders.cluster)
        except NoSpace as error:
            self._no_space(error)

    def end_all(self, grace_s: float) -> None:
        """Nothing is to run any more."""
        self.shutdown_grace_s = grace_s
        self.dirty = True
        self.save_or_note()

    @property
    def is_empty(self) -> bool:
        """Whether no process runs."""
        return not any(unit.record.is_alive for unit in self.units.values())

    def next_time(self, now: float) -> float:
        """When a record, or a process that is on its way, has to be looked at again."""
        if any(not unit.record.is_alive and (unit.record.retry_at or now + 1) <= now for unit in self.units.values()):
            return now + RESOLVE_S  # it waits for something else (a peer's address): that must not be a busy loop
        times = [t for unit in self.units.values() if (t := next_time(unit.record)) is not None]
        if self.waiting_starts:
            times.append(self.starts.next_at())
        if self.line.has_unsent or any(unit.is_on_its_way for unit in self.units.values()):
            times.append(now + RESOLVE_S)
        return min(times, default=math.inf)

    def close(self) -> None:
        """The agent has ended."""
        import shutil

        if self.folders is not None:
            self.folders.close()
        self.preparations.close()
        self.hands.close()
        self.line.close()
        shutil.rmtree(self._sockets, ignore_errors=True)
        self.reports.close()

    # ------------------------------------------------------------------ records

    def advance_all(self, now: float) -> None:
        """Ask every record for its next step; store all of them; then act."""
        todo: list[tuple[Unit, Action]] = []
        some_rest = any(not unit.record.is_alive for unit in self.units.values())
        places_known = some_rest and not self.peers.missing(self.orders.expected)
        self.waiting_starts = False
        before: dict[str, Record] = {}
        for name, unit in list(self.units.items()):
            order = self._order_of(unit)
            if not unit.record.is_alive:
                if unit.order is None and self.shutdown_grace_s is None:
                    self._forget(unit)
                    continue
                if order.run and not self._may_start(unit, places_known):
                    continue
            record = resources.for_generation(unit, self.units.values())
            record, action = advance(record, order, now)
            if action == "start" and not self.starts.take(now, self._cost(unit)):
                self.waiting_starts = True
                continue
            if action == "start":
                record = resources.for_start(unit, record, self.units.values())
                action = "start" if record.state == "starting" else None
            if record is unit.record:
                continue
            before[name] = unit.record
            unit.record = record
            if action is not None:
                todo.append((unit, action))
        if not before:
            return
        try:
            self._save()
        except NoSpace as error:
            self._no_space(error)
            for unit, action in todo:
                if action == "start":
                    unit.record = postponed(before[unit.name], now, error.message)
            todo = [(unit, action) for unit, action in todo if action != "start"]
        for name, record in before.items():
            self._tell(self.units[name], record)
        for unit, action in todo:
            if action == "start":
                self._start(unit, now)
            else:
                self.hands.signal(unit, signal.SIGTERM if action == "terminate" else signal.SIGKILL)
        if any(action == "start" for _, action in todo):
            self.save_or_note()

    def _order_of(self, unit: Unit) -> Order:
        """What is wanted of a process. One that was moved to another host while this one was away ends at once."""
        if unit.order is None and unit.is_task and unit.name in self._expected:
            return Order(run=False, grace_s=0.0, now=True)
        if self.is_cut_off:
            return Order(run=False, grace_s=LEASE_GRACE_S, why="stopped: its host was cut off from the controller")
        return unit.lifecycle_order(self.shutdown_grace_s)

    def set(self, unit: Unit, record: Record) -> None:
        """Change a record, and tell."""
        old, unit.record = unit.record, record
        self._tell(unit, old)

    def _tell(self, unit: Unit, old: Record) -> None:
        """Tell peers and the controller what the change from `old` means."""
        record = unit.record
        self.dirty = True
        if old.state == record.state and old.incarnation == record.incarnation:
            return
        news = news_of(unit, old, time.monotonic())
        if news is not None:
            self.happened(news.kind, unit.name, news.reason, news.incarnation, news.failure)
        if unit.is_task:
            if old.state == "running":
                self.peers.went_down(unit, record.hung or record.reason or record.state)
            if record.state == "running":
                self.peers.came_up(unit)

    def _may_start(self, unit: Unit, places_known: bool) -> bool:
        # What a host had to run before it was lost may run elsewhere by now.
        if self.orders.lease_s and not self.is_told:
            return False
        if self.folders is not None and self.folders.holds_back(unit.name):
            return False
        order = unit.order
        if not isinstance(order, ClientOrder):
            return places_known
        if not self._is_prepared(unit, order):
            return False
        mine = self.units.get(unit.task_name)
        return not order.needs_task or mine is None or mine.record.state == "running"

    def _is_prepared(self, unit: Unit, order: ClientOrder) -> bool:
        """Whether its files and packages are there, or cannot be: its start says why."""
        command = (*launch.interpreter(order.command), sys.executable)[0]
        waits_for = self.preparations.look(order, command, launch.lent_modules(order.command))
        if waits_for and waits_for != unit.record.reason and unit.record.state == "pending":
            self.set(unit, replace(unit.record, reason=waits_for))
        return not waits_for

    def _cost(self, unit: Unit) -> float:
        """Of its start."""
        return FORK if unit.is_task and self.hands.forks(self.orders.task_command) else PROGRAM

    # ------------------------------------------------------------------ processes

    def _start(self, unit: Unit, now: float) -> None:
        order = unit.order
        assert order is not None
        folder = self.hands.folder_of(unit)
        unit.mark_start()
        try:
            private_folder(folder)
            context = self._context(folder)
            if isinstance(order, TaskOrder):
                start = launch.task_start(context, order, unit.record.incarnation, unit.record.gpus)
            else:
                start = launch.client_start(context, order, self.preparations.result(order), unit.record.gpus)
                unit.progress = unit.progress or ProgressFile(launch.progress_path(self.folder, order))
            self.hands.start(unit, start, log=self.log_of(unit.log_name), rules=self.orders.logs)
        except (OSError, LauncherError) as error:
            self._start_failed(unit, error, now)
            return
        self.hands.watch(unit, self.orders.health, now)
        if not unit.is_task:
            self.set(unit, ready(unit.record))
        log.info("started %s, incarnation %d", unit.name, unit.record.incarnation)

    def _context(self, folder: Path) -> launch.Context:
        addresses = self.peers.addresses()
        return launch.Context(
            self.folder,
            folder,
            self.line,
            self.orders,
            addresses,
            self._cores,
            self._keyring,
            {name: other.record.gpus for name, other in self.units.items() if other.is_task},
        )

    def _start_failed(self, unit: Unit, error: Exception, now: float) -> None:
        if isinstance(error, NoSpace):
            self._no_space(error)
            # The number of this start is used up, but nothing was started.
            record = replace(unit.record, restarts=max(0, unit.record.restarts - 1))
            self.set(unit, postponed(record, now, error.message))
            return
        log.error("cannot start %s: %s", unit.name, error)
        self.set(unit, cannot_start(unit.record, f"cannot start: {error}"))

    def processes_ended(self, names: Iterable[str]) -> None:
        """The keepers of these units have ended: so have their tasks."""
        self.take_beats()
        for name in names:
            unit = self.units[name]
            self._after_end(unit, self.hands.end_of(unit))
        self.save_or_note()

    def learn_pids(self) -> None:
        """Of tasks whose keepers have just started."""
        if self.hands.resolve(self.units.values()):
            self.dirty = True

    def hear_seed(self, seed: Seed) -> None:
        """One has something to say."""
        for unit, error in self.hands.hear(seed, self.units):
            self._start_failed(unit, error, time.monotonic())

    def _after_end(self, unit: Unit, ending: Ending) -> None:
        self.read_progress(unit, time.monotonic())
        record = unit.record
        if ending.exit_code == ADDRESS_IN_USE_EXIT and isinstance(unit.order, TaskOrder):
            record = replace(record, port=0)
        order = self._order_of(unit)
        if ending.is_failure and record.state != "stopping":
            unit.last_lines = logs.last_errors(self.log_of(unit.log_name), unit.started_stamp)
        policy = unit.policy(self.orders.restart)
        if ending.is_failure:
            match = logs.matches(self.log_of(unit.log_name), unit.started_stamp, policy.never_log)
            ending = replace(ending, log_match=match)
            blame = logs.matches(self.log_of(unit.log_name), unit.started_stamp, self.orders.bad_host_log)
            if blame:
                self.happened("host.bad", f"host:{self.host}", f"the log of {unit.name} matches {blame!r}")
        import random

        hungry = self.hands.out_of_memory(unit)
        if hungry and record.state != "stopping" and (unit.is_task or ending.is_failure):
            record = replace(record, hung=hungry, out_of_memory=True)
            # A job's process would use as much again; its whole job may be tried again by --retries.
            ending = replace(ending, final=not unit.is_task)
        after = ended(record, order, policy, ending, now=time.monotonic(), rand=random.random())
        after = replace(after, keeper_pid=0, keeper_ticks=0, task_pid=0, task_ticks=0)
        self.hands.clear(unit)
        self.set(unit, after)

    def _forget(self, unit: Unit) -> None:
        """Nobody wants to know about it any more."""
        del self.units[unit.name]
        if unit.is_task and unit.name not in self._expected:
            self.peers.went_away(unit)
        self.hands.clear_all(unit)
        self.dirty = True

    def log_of(self, process: str) -> Path:
        """The log file of `worker/1`, `job:ID.UID:worker/0` or `agent`."""
        folder = Path(self.orders.logs.folder or self.log_folder).expanduser()
        if process.startswith("job:"):
            _, key, task = process.split(":")
            return folder / "jobs" / key / f"{task.replace('/', '-')}.log"
        return folder / f"{process.replace('/', '-')}.log"

    def delete_logs(self) -> None:
        """Of all processes that this host has had, and of this agent."""
        import shutil

        for folder in {self.log_folder, Path(self.orders.logs.folder or self.log_folder).expanduser()}:
            shutil.rmtree(folder, ignore_errors=True)

    def surroundings(self, process: str, job_folder: str = "") -> launch.Surroundings:
        """Of a command in the environment of `worker/1` or `job:ID:worker/0`, or of the host (""). Loop thread.

        Of a job that has ended its folder is left.
        """
        context = self._context(self.folder)
        if not process:
            found = launch.surroundings(context, None, ())
            return replace(found, env={**found.env, "DTFCTL_LOGS": str(self.log_folder)})
        unit = self.units.get(process)
        copy = self.preparations.folder_of(process.split(":")[1]) if process.startswith("job:") else None
        if (job_folder or copy) and (unit is None or unit.order is None):
            return launch.surroundings(context, None, (), job_folder, copy)
        if unit is None or unit.order is None:
            raise NoSuchTask(f"{process} is not on host {self.host}", "look with: dtfctl status")
        return launch.surroundings(context, unit.order, unit.record.gpus, copy=copy)

    # ------------------------------------------------------------------ what processes tell

    def take_beats(self) -> None:
        """Hear what the tasks have sent."""
        now = time.monotonic()
        became_ready = [beat.task for beat in self.line.take() if self._on_beat(beat, now)]
        if became_ready:
            self.save_or_note()

    def _on_beat(self, beat: beats.Beat, now: float) -> bool:
        """Whether its record changed."""
        unit = self.units.get(beat.task)
        if unit is None or unit.monitor is None or unit.record.incarnation != beat.incarnation:
            return False
        unit.stuck = beat.stuck
        if not beat.stuck:
            unit.monitor.beat(now)
        unit.steps = beat.steps
        unit.transport, unit.blas, unit.faults = beat.transport, beat.blas, beat.faults
        if unit.unreachable != beat.unreachable:
            unit.unreachable, self.dirty = beat.unreachable, True
        if not beat.ready or unit.record.state != "starting":
            return False
        self.set(unit, ready(unit.record))
        unit.health = unit.monitor.tick(now)
        return True

    def read_progress(self, unit: Unit, now: float) -> None:
        """How far a process of a job says that it is."""
        if unit.progress is None:
            return
        if unit.progress.poll():
            unit.advanced_at, unit.has_advanced = now, True
        for text in unit.progress.take_notes():
            subject = unit.name.rpartition(":")[0]
            self.happened("job.note", subject, f"{unit.task_name}: {text}", unit.record.incarnation)

    # ------------------------------------------------------------------ a former agent's processes, and a later one's

    def _adopt(self, saved: state_file.Saved) -> None:
        """Take over the processes of a former agent of this host."""
        self.orders = saved.orders
        self._expected = frozenset(saved.orders.expected)
        if saved.going_down:
            self.shutdown_grace_s = ADOPTED_GRACE_S
        wanted: dict[str, Any] = {order.name: order for order in saved.orders.tasks}
        wanted |= {order.name: order for order in saved.orders.clients}
        now = time.monotonic()
        for name, record in saved.records.items():
            unit = self.units[name] = Unit(name, record)
            unit.order = wanted.get(name)
            if isinstance(unit.order, ClientOrder):
                unit.progress = ProgressFile(launch.progress_path(self.folder, unit.order))
                unit.progress.poll()
                unit.progress.take_notes()  # the former agent has told them
        self.peers.know(saved.orders.peers, saved.orders.expected)
        for unit in self.units.values():
            if unit.record.is_alive:
                self._adopt_unit(unit, now)
        self.happened("agent.started", f"host:{self.host}", f"pid {os.getpid()}")
        self._save()

    def _adopt_unit(self, unit: Unit, now: float) -> None:
        found = self.hands.find(unit)
        if found == "never started":
            unit.record = replace(unit.record, state="pending", retry_at=now, started_at=None)
            return
        if found != "runs":
            self._after_end(unit, found)
            unit.resolved = False
            return
        self.hands.watch(unit, self.orders.health, now)
        kind = "task" if unit.is_task else "process"
        self.happened(f"{kind}.adopted", unit.name, "by a new agent", unit.record.incarnation)

    def _save(self) -> None:
        records = {name: unit.record for name, unit in self.units.items()}
        state_file.save(self._state_file, self._sockets, self.orders, records, self.shutdown_grace_s is not None)
        self.problem = ""

    def save_or_note(self) -> None:
        """Store orders and records; a full disk is reported, and it is tried again later."""
        try:
            self._save()
        except NoSpace as error:
            self._no_space(error)

    def _no_space(self, error: NoSpace) -> None:
        if self.problem != error.message:
            log.error("%s", error.message)
            self.happened("host.no-space", f"host:{self.host}", error.message)
        self.problem = error.message
        self.dirty = True

    # ------------------------------------------------------------------ reports

    def happened(self, kind: str, subject: str, reason: str = "", incarnation: int = 0, failure: bool = False) -> None:
        """Tell the controller, and the log."""
        self.reports.happened(kind, subject, reason, incarnation, failure)
        self.dirty = True
        log.info("%s %s %s", kind, subject, reason)

    def publish(self, facts: HostFacts, now: float) -> None:
        """Make the report that those who watch get."""
        self.dirty = False
        report = compose(
            Report(
                self.host,
                self.boot,
                os.getpid(),
                self.orders.revision,
                self.orders.epoch,
                problem=self.problem,
                faults=guard.faults(),
                address=self.address,
                folders=() if self.folders is None else self.folders.reports(),
            ),
            facts,
            self.units.values(),
            self.peers.addresses(),
            self.advertise,
            now,
        )
        self.reports.publish(report)
