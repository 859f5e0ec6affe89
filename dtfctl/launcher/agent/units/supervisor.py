"""Lead all units of a host through their one life: what is wanted is on disk before anything is done about it.

So a new agent finds every process of a killed one. What happens next to each unit `lifecycle.py` decides, its process
is in the care of `process_control.py`, and where tasks and jobs' processes differ, the unit's hooks say so (`unit.py`).
"""

from __future__ import annotations

import logging
import math
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from dtfctl import guard
from dtfctl.health.restart import Ending
from dtfctl.launcher.agent.start import logs
from dtfctl.launcher.agent.start.seeds import Seed
from dtfctl.launcher.agent.tell.reports import compose
from dtfctl.launcher.agent.units import resources, state_file
from dtfctl.launcher.agent.units.host_units import HostUnits
from dtfctl.launcher.agent.units.job_unit import JobUnit
from dtfctl.launcher.agent.units.lifecycle import (
    Action,
    Record,
    advance,
    cannot_start,
    ended,
    next_time,
    postponed,
)
from dtfctl.launcher.agent.units.process_control import ProcessControl
from dtfctl.launcher.agent.units.start_budget import FORK, PROGRAM, StartBudget
from dtfctl.launcher.agent.units.task_unit import TaskUnit
from dtfctl.launcher.agent.units.unit import Unit
from dtfctl.launcher.errors import LauncherError, NoSpace
from dtfctl.launcher.identity.keyring import Keyring
from dtfctl.launcher.messages.deltas import complete, remembered
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.messages.reports import Report
from dtfctl.launcher.paths import make_socket_folder
from dtfctl.launcher.system.files import private_folder
from dtfctl.launcher.system.host_facts import HostFacts
from dtfctl.launcher.system.procfs import boot_id
from dtfctl.values import replace

log = logging.getLogger(__name__)

RESOLVE_S = 0.01
"""How often a new keeper's status file is looked at until it names the task's pid."""
ADOPTED_GRACE_S = 10.0
"""The seconds for what still runs when the agent that was told to stop it has died."""


class Supervisor:
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
        self._state_file = folder / state_file.FILE
        saved = state_file.load(self._state_file)
        self._sockets = Path(saved.socket_folder) if saved.socket_folder else make_socket_folder(folder)
        private_folder(self._sockets)
        self.state = HostUnits(host, folder, log_folder, keyring, advertise, self._sockets, wake)
        self.problem = ""
        """What keeps the state from being stored; empty when nothing does."""
        self.control = ProcessControl(folder, selector)
        self._starts = StartBudget()
        self._waiting_starts = False
        """Some process could start, had not so many just been started."""
        self._adopt(saved)

    # ------------------------------------------------------------------ what is wanted

    def take(self, orders: HostOrders) -> None:
        """Take over orders, of which the changes may be all that is told."""
        state, before = self.state, self.state.orders
        orders = remembered(before, complete(before, orders))
        for job_id in sorted(set(state.orders.jobs) - set(orders.jobs)):
            state.peers.job_ended(job_id)
        gone = {order.name for order in state.orders.clients} - {order.name for order in orders.clients}
        for order in orders.tasks:
            if order.name not in state.tasks:
                state.tasks[order.name] = TaskUnit(order.name, Record(), state)
        for process in orders.clients:
            if process.name not in state.jobs:
                state.jobs[process.name] = JobUnit(process.name, Record(), state)
        self._give_orders(orders)
        state.preparations.keep(orders.clients)
        self._take_folders()
        for task, record in resources.first_ports(state.tasks.values()):
            state.set(task, record)
        state.peers.stand(orders.rack, orders.ways)
        state.peers.update(orders.peers, orders.expected)
        state.dirty = True
        if orders.save > before.save:
            for job in state.jobs.values():
                job.tell_to_save()
        if gone:
            self.save_or_note()  # what their environments held leaves this host with them

    def _give_orders(self, orders: HostOrders) -> None:
        """Give every unit its order, and none to what nobody wants any more."""
        state = self.state
        state.orders = orders
        state.expected = frozenset(orders.expected)
        tasks = {order.name: order for order in orders.tasks}
        clients = {order.name: order for order in orders.clients}
        for task in state.tasks.values():
            task.order = tasks.get(task.name)
        for process in state.jobs.values():
            process.order = clients.get(process.name)

    def _take_folders(self) -> None:
        state = self.state
        if state.folders is None:
            if not state.orders.folders:
                return
            # Imported by the first who needs it: most agents' starts do not.
            from dtfctl.launcher.checkpoints.folders import Folders

            state.folders = Folders(state.keyring.of_agent(), state.reports.tell)
        try:
            state.folders.take(state.orders.folders, state.orders.cluster)
        except NoSpace as error:
            self._no_space(error)

    def end_all(self, grace_s: float) -> None:
        """Let nothing run any more."""
        self.state.shutdown_grace_s = grace_s
        self.state.dirty = True
        self.save_or_note()

    def kill_all(self) -> None:
        """Kill everything at once, without asking what became of it."""
        for unit in self.state.units():
            if unit.record.is_alive:
                self.control.kill(unit)

    # ------------------------------------------------------------------ when to look again

    @property
    def is_empty(self) -> bool:
        """Whether no process runs."""
        return not any(unit.record.is_alive for unit in self.state.units())

    def next_time(self, now: float) -> float:
        """Say when a record, or a process that is on its way, has to be looked at again."""
        units = list(self.state.units())
        if any(not unit.record.is_alive and (unit.record.retry_at or now + 1) <= now for unit in units):
            return now + RESOLVE_S  # it waits for something else (a peer's address): that must not be a busy loop
        times = [t for unit in units if (t := next_time(unit.record)) is not None]
        if self._waiting_starts:
            times.append(self._starts.next_at())
        if self.state.socket.has_unsent or any(unit.is_on_its_way for unit in units):
            times.append(now + RESOLVE_S)
        return min(times, default=math.inf)

    # ------------------------------------------------------------------ the life of a unit: towards its order

    def advance_all(self, now: float) -> None:
        """Ask every record for its next step; store all of them; then act."""
        units = list(self.state.units())
        some_rest = any(not unit.record.is_alive for unit in units)
        self.state.places_known = some_rest and not self.state.peers.missing(self.state.orders.expected)
        self._waiting_starts = False
        before: dict[str, Record] = {}
        todo: list[tuple[Unit, Action]] = []
        for unit in units:
            record, action = self._next(unit, now)
            if record is unit.record:
                continue
            before[unit.name], unit.record = unit.record, record
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
        for unit in units:
            if unit.name in before:
                self.state.tell(unit, before[unit.name])
        for unit, action in todo:
            if action == "start":
                self._start(unit, now)
            else:
                self.control.signal(unit, signal.SIGTERM if action == "terminate" else signal.SIGKILL)
        if any(action == "start" for _, action in todo):
            self.save_or_note()

    def _next(self, unit: Unit, now: float) -> tuple[Record, Action | None]:
        """Find a unit's next record, and what is to be done once that is stored; its own record: nothing changes."""
        state = self.state
        order = unit.wanted()
        if not unit.record.is_alive:
            if unit.order is None and state.shutdown_grace_s is None:
                self._forget(unit)
                return unit.record, None
            if order.run and not self._may_start(unit):
                return unit.record, None
        record, action = advance(unit.claim_early(), order, now)
        if action == "start":
            if not self._starts.take(now, self._cost(unit)):
                self._waiting_starts = True
                return unit.record, None
            record = unit.claim(record)
            action = "start" if record.state == "starting" else None
        return record, action

    def _may_start(self, unit: Unit) -> bool:
        # What a host had to run before it was lost may run elsewhere by now.
        if self.state.orders.lease_s and not self.state.is_told:
            return False
        if self.state.folders is not None and self.state.folders.holds_back(unit.name):
            return False
        return unit.may_start()

    def _cost(self, unit: Unit) -> float:
        """Weigh a unit's start: a fork costs less than a program."""
        return FORK if unit.is_forked and self.control.forks(self.state.orders.task_command) else PROGRAM

    def _start(self, unit: Unit, now: float) -> None:
        state = self.state
        folder = self.control.folder_of(unit)
        unit.mark_start()
        try:
            private_folder(folder)
            start = unit.start_of(state.context(folder))
            self.control.start(unit, start, log=state.log_of(unit.log_name), rules=state.orders.logs)
        except (OSError, LauncherError) as error:
            self._start_failed(unit, error, now)
            return
        self.control.watch(unit, state.orders.health, now)
        unit.on_started()
        log.info("started %s, incarnation %d", unit.name, unit.record.incarnation)

    def _start_failed(self, unit: Unit, error: Exception, now: float) -> None:
        if isinstance(error, NoSpace):
            self._no_space(error)
            # The number of this start is used up, but nothing was started.
            record = replace(unit.record, restarts=max(0, unit.record.restarts - 1))
            self.state.set(unit, postponed(record, now, error.message))
            return
        log.error("cannot start %s: %s", unit.name, error)
        self.state.set(unit, cannot_start(unit.record, f"cannot start: {error}"))

    # ------------------------------------------------------------------ the life of a unit: its end

    def processes_ended(self, names: Iterable[str]) -> None:
        """Take the ends of these units' keepers: so have their tasks ended."""
        self.take_beats()
        for name in names:
            unit = self._known(name)
            self._after_end(unit, self.control.end_of(unit))
        self.save_or_note()

    def _after_end(self, unit: Unit, ending: Ending) -> None:
        import random

        state, log_file = self.state, self.state.log_of(unit.log_name)
        unit.on_last_words()
        record = unit.record_at_end(ending)
        policy = unit.policy(state.orders.restart)
        if ending.is_failure:
            if record.state != "stopping":
                unit.last_lines = logs.last_errors(log_file, unit.started_stamp)
            ending = replace(ending, log_match=logs.matches(log_file, unit.started_stamp, policy.never_log))
            blame = logs.matches(log_file, unit.started_stamp, state.orders.bad_host_log)
            if blame:
                state.happened("host.bad", f"host:{state.host}", f"the log of {unit.name} matches {blame!r}")
        hungry = self.control.out_of_memory(unit)
        if hungry and record.state != "stopping":
            record, ending = unit.on_out_of_memory(record, ending, hungry)
        after = ended(record, unit.wanted(), policy, ending, now=time.monotonic(), rand=random.random())
        after = replace(after, keeper_pid=0, keeper_ticks=0, task_pid=0, task_ticks=0)
        self.control.clear(unit)
        state.set(unit, after)

    def _forget(self, unit: Unit) -> None:
        """Forget a unit: nobody wants to know about it any more."""
        self.state.forget(unit.name)
        unit.on_forgotten()
        self.control.clear_all(unit)
        self.state.dirty = True

    # ------------------------------------------------------------------ what processes tell

    def _known(self, name: str) -> Unit:
        unit = self.state.unit(name)
        assert unit is not None, name
        return unit

    def learn_pids(self) -> None:
        """Learn those of tasks whose keepers have just started."""
        if self.control.resolve(self.state.units()):
            self.state.dirty = True

    def hear_seed(self, seed: Seed) -> None:
        """Take what a seed has to say."""
        for unit, error in self.control.hear(seed, self._known):
            self._start_failed(unit, error, time.monotonic())

    def take_beats(self) -> None:
        """Hear what the tasks have sent."""
        now = time.monotonic()
        tasks = self.state.tasks
        became_ready = [
            beat.task for beat in self.state.socket.take() if beat.task in tasks and tasks[beat.task].hear(beat, now)
        ]
        if became_ready:
            self.save_or_note()

    # ------------------------------------------------------------------ a former agent's processes, and a later one's

    def _adopt(self, saved: state_file.Saved) -> None:
        """Take over the processes of a former agent of this host."""
        state = self.state
        if saved.going_down:
            state.shutdown_grace_s = ADOPTED_GRACE_S
        processes = {*saved.processes, *(order.name for order in saved.orders.clients)}
        for name, record in saved.records.items():
            if name in processes:
                state.jobs[name] = JobUnit(name, record, state)
            else:
                state.tasks[name] = TaskUnit(name, record, state)
        self._give_orders(saved.orders)
        for process in state.jobs.values():
            process.find_progress()
        state.peers.stand(saved.orders.rack, saved.orders.ways, heard=True)
        state.peers.know(saved.orders.peers, saved.orders.expected)
        now = time.monotonic()
        for unit in list(state.units()):
            if unit.record.is_alive:
                self._adopt_unit(unit, now)
        state.happened("agent.started", f"host:{state.host}", f"pid {os.getpid()}")
        self._save()

    def _adopt_unit(self, unit: Unit, now: float) -> None:
        found = self.control.find(unit)
        if found == "never started":
            unit.record = replace(unit.record, state="pending", retry_at=now, started_at=None)
            return
        if found != "runs":
            self._after_end(unit, found)
            unit.resolved = False
            return
        self.control.watch(unit, self.state.orders.health, now)
        self.state.happened(f"{unit.kind}.adopted", unit.name, "by a new agent", unit.record.incarnation)

    def _save(self) -> None:
        state = self.state
        records = {unit.name: unit.record for unit in state.units()}
        going_down = state.shutdown_grace_s is not None
        saved = state_file.Saved(
            boot_id(), str(self._sockets), state.orders, records, tuple(state.jobs), going_down=going_down
        )
        state_file.save(self._state_file, saved)
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
            self.state.happened("host.no-space", f"host:{self.state.host}", error.message)
        self.problem = error.message
        self.state.dirty = True

    # ------------------------------------------------------------------ reports, and the end

    def publish(self, facts: HostFacts, now: float) -> None:
        """Make the report that those who watch get."""
        state = self.state
        state.dirty = False
        head = Report(
            state.host,
            state.boot,
            os.getpid(),
            state.orders.revision,
            state.orders.epoch,
            problem=self.problem,
            faults=guard.faults(),
            address=state.address,
            folders=() if state.folders is None else state.folders.reports(),
        )
        addresses = state.peers.addresses()
        tasks = tuple(task.report(addresses.get(task.name, ""), now) for task in state.tasks.values())
        state.reports.publish(compose(head, facts, tasks, tuple(process.report() for process in state.jobs.values())))

    def close(self) -> None:
        """Let go of everything: the agent has ended."""
        import shutil

        if self.state.folders is not None:
            self.state.folders.close()
        self.state.preparations.close()
        self.control.close()
        self.state.socket.close()
        shutil.rmtree(self._sockets, ignore_errors=True)
        self.state.reports.close()
