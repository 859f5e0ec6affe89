"""The agent's loop: the one thread that owns all units, and does what `lifecycle.py` decides.

It sleeps in one place and is woken by the end of a keeper (pidfd), a beat (datagram), a call (wake-up pipe) or the
next time in a record. Records are on disk before anything is done about them, so that a new agent finds every
process of a killed one.
"""

from __future__ import annotations

import logging
import os
import random
import selectors
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from dtfctl.health import beats
from dtfctl.health.restart import Ending
from dtfctl.launcher.agent import launch, logs, memory_group, processes, resources, state
from dtfctl.launcher.agent.budget import StartBudget
from dtfctl.launcher.agent.contract import (
    ADDRESS_IN_USE_EXIT,
    ClientOrder,
    HostOrders,
    Report,
    TaskOrder,
)
from dtfctl.launcher.agent.deltas import complete
from dtfctl.launcher.agent.facts import HostFacts, read_facts
from dtfctl.launcher.agent.judge import judge, stands_still
from dtfctl.launcher.agent.lease import Lease, can_reach, way_back
from dtfctl.launcher.agent.lifecycle import (
    Action,
    Order,
    Record,
    advance,
    cannot_start,
    ended,
    hangs,
    next_time,
    ready,
)
from dtfctl.launcher.agent.line import TaskLine
from dtfctl.launcher.agent.peers import PeerBoard
from dtfctl.launcher.agent.progress import ProgressFile
from dtfctl.launcher.agent.reports import Reports, compose
from dtfctl.launcher.agent.unit import Unit, folder_of
from dtfctl.launcher.certificates import TlsFiles
from dtfctl.launcher.errors import Conflict, LauncherError, NoSpace, NoSuchTask
from dtfctl.launcher.files import private_folder
from dtfctl.launcher.loop import Mailbox
from dtfctl.launcher.paths import make_socket_folder
from dtfctl.launcher.procfs import dump_stacks, identify, kill_group, send_signal

log = logging.getLogger(__name__)
T = TypeVar("T")

RESOLVE_S = 0.01
"""How often a new keeper's status file is looked at until it names the task's pid."""
NO_SPACE_RETRY_S = 1.0
FACTS_S = 2.0
ADOPTED_GRACE_S = 10.0
"""For what still runs when the agent that was told to stop it has died."""
DUMP_S = 1.0
"""For a process that hangs to write where its threads stand, before it is killed."""
LEASE_GRACE_S = 2.0
"""Between SIGTERM and SIGKILL when the lease has ended: others take the tasks' places already."""


class Agent:
    """All processes of one cluster on one host."""

    def __init__(
        self,
        host: str,
        folder: Path,
        log_folder: Path,
        certificates: Path,
        advertise: str = "127.0.0.1",
        came_from: str = "",
    ) -> None:
        self.host = host
        self._task_tls = TlsFiles.of(certificates, f"task-{host}")
        self.folder = private_folder(folder)
        self.log_folder = private_folder(log_folder)
        self.advertise = advertise
        self._came_from = came_from
        self.boot = os.urandom(8).hex()
        self._state_file = folder / "state.json"
        self._runs = folder / "runs"
        self._orders = HostOrders()
        self._expected: frozenset[str] = frozenset()
        self._units: dict[str, Unit] = {}
        self._problem = ""
        self._facts: HostFacts = read_facts(folder)
        self._facts_at = 0.0
        self._shutdown_grace_s: float | None = None
        self._may_end = False
        self._dirty = False
        self._next_tick = 0.0
        self._due_at = 0.0
        """When there is something to do without being told."""
        self._mailbox = Mailbox(self._wake)
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self.reports = Reports(Report(host, self.boot, os.getpid()))
        self.finished = False
        saved = state.load(self._state_file)
        self._sockets = Path(saved.socket_folder) if saved.socket_folder else make_socket_folder(folder)
        private_folder(self._sockets)
        self._line = TaskLine(self._sockets)
        self._peers = PeerBoard(self._line, self._units, advertise)
        self._selector.register(self._line.socket, selectors.EVENT_READ, None)
        self._lease = Lease()
        self._told = False
        """The controller has spoken to this agent."""
        self._controller = ""
        self._starts = StartBudget()
        self._waiting_starts = False
        self._adopt(saved)
        self._lease.renew(time.monotonic(), self._orders.lease_s)

    # ------------------------------------------------------------------ calls from other threads

    def call(self, function: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Run `function` in the loop's thread and wait for its result."""
        return self._mailbox.call(function, timeout_s)

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:  # full: it is being woken already
            return

    def apply(self, orders: HostOrders, controller: str = "") -> None:
        """Take over the orders of the controller, whose calls come from `controller`. Loop thread."""
        if orders.epoch < self._orders.epoch:
            raise Conflict(f"orders of controller epoch {orders.epoch} come after those of {self._orders.epoch}")
        if orders.epoch == self._orders.epoch and orders.revision < self._orders.revision:
            return
        orders = complete(self._orders, orders)
        for job_id in sorted(set(self._orders.jobs) - set(orders.jobs)):
            self._peers.job_ended(job_id)
        self._orders = orders
        self._expected = frozenset(orders.expected)
        wanted: dict[str, TaskOrder | ClientOrder] = {order.name: order for order in orders.tasks}
        wanted |= {order.name: order for order in orders.clients}
        for name in wanted:
            if name not in self._units:
                self._units[name] = Unit(name, Record())
        for name, unit in self._units.items():
            unit.order = wanted.get(name)
        for unit, record in resources.first_ports(self._units.values()):
            self._set(unit, record)
        self._peers.update(orders.peers, orders.expected)
        self._heard(controller)
        self._dirty = True

    def renew(self, epoch: int, revision: int, controller: str) -> None:
        """The controller still wants what these orders say. Loop thread."""
        if (epoch, revision) == (self._orders.epoch, self._orders.revision):
            self._heard(controller)

    def _heard(self, controller: str) -> None:
        self._controller, self._told = controller, True
        if self._lease.has_ended:
            self._happened("host.lease-renewed", f"host:{self.host}", "the controller is there again")
        self._lease.renew(time.monotonic(), self._orders.lease_s)

    def _look_at_lease(self, now: float) -> None:
        outlook = self._lease.look(now)
        if outlook == "ended":
            text = f"no word of the controller for {self._lease.length_s:.0f} s: stops its tasks"
            self._happened("host.lease-ended", f"host:{self.host}", text)
        elif outlook == "ask":
            controller = way_back(self._controller, self.advertise, self._came_from)

            def ask() -> None:
                reachable = can_reach(controller)
                self._mailbox.post(lambda: self._lease.answer(time.monotonic(), reachable=reachable))

            threading.Thread(target=ask, name="lease", daemon=True).start()

    def shutdown(self, grace_s: float) -> None:
        """Stop all processes; `run` returns when they have ended. Loop thread."""
        self._shutdown_grace_s = grace_s
        self._may_end = True
        self._dirty = True
        self._save_or_note()

    def log_of(self, process: str) -> Path:
        """The log file of `worker/1`, `job:ID:worker/0` or `agent`."""
        folder = Path(self._orders.logs.folder or self.log_folder).expanduser()
        if process.startswith("job:"):
            _, job_id, task = process.split(":")
            return folder / "jobs" / job_id / f"{task.replace('/', '-')}.log"
        return folder / f"{process.replace('/', '-')}.log"

    def surroundings(self, process: str) -> launch.Surroundings:
        """Of a command in the environment of `worker/1` or `job:ID:worker/0`, or of the host (""). Loop thread."""
        context = self._context(self.folder)
        if not process:
            found = launch.surroundings(context, None, ())
            return replace(found, env={**found.env, "DTFCTL_LOGS": str(self.log_folder)})
        unit = self._units.get(process)
        if unit is None or unit.order is None:
            raise NoSuchTask(f"{process} is not on host {self.host}", "look with: dtfctl status")
        return launch.surroundings(context, unit.order, unit.record.gpus)

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        """Work until `shutdown` is done."""
        while not self.finished:
            has_news = False
            for key, _ in self._selector.select(max(0.0, self._due_at - time.monotonic())):
                if key.fd == self._wake_read:
                    os.read(self._wake_read, 4096)
                elif key.fileobj is self._line.socket:
                    continue
                elif isinstance(key.data, str):
                    self._on_exit(self._units[key.data])
                has_news = True
            self._take_beats()
            now = time.monotonic()
            if not (has_news or self._dirty) and now < self._due_at:
                continue  # beats of tasks that are as they were: nearly every turn is one of these
            self._mailbox.run_all()
            self._resolve()
            if now >= self._next_tick:
                self._tick(now)
                self._next_tick = now + self._orders.health.beat_s
            self._advance_all(now)
            self._peers.flush()
            if self._dirty:
                self._publish(now)
            if self._may_end and not any(u.record.is_alive for u in self._units.values()):
                self._publish(now)
                self.finished = True
            self._due_at = time.monotonic() + self._sleep_s()
        self._mailbox.close()
        self._line.close()
        shutil.rmtree(self._sockets, ignore_errors=True)
        self.reports.close()

    def _sleep_s(self) -> float:
        if self._dirty:
            return 0.0
        times = [self._next_tick]
        if self._waiting_starts:
            times.append(self._starts.next_at(time.monotonic()))
        if self._line.has_unsent:
            times.append(time.monotonic() + RESOLVE_S)
        times += [t for unit in self._units.values() if (t := next_time(unit.record)) is not None]
        if any(unit.record.is_alive and not unit.resolved for unit in self._units.values()):
            times.append(time.monotonic() + RESOLVE_S)
        # A retry that waits for something else (a peer's address) must not make this a busy loop.
        return max(0.002, min(times) - time.monotonic()) if not self._waits_for_others() else RESOLVE_S

    def _waits_for_others(self) -> bool:
        now = time.monotonic()
        return any(
            not unit.record.is_alive and (unit.record.retry_at or now + 1) <= now for unit in self._units.values()
        )

    def _tick(self, now: float) -> None:
        """Every beat: look at processes, judge their health, renew the report."""
        self._look_at_lease(now)
        for unit in self._units.values():
            if unit.record.is_alive:
                unit.look(now)
                self._judge(unit, now)
            self._read_progress(unit, now)
        if self._problem:
            self._save_or_note()
        if now - self._facts_at >= FACTS_S:
            self._facts, self._facts_at = read_facts(self.folder), now
        self._dirty = True

    def _read_progress(self, unit: Unit, now: float) -> None:
        if unit.progress is None:
            return
        if unit.progress.poll():
            unit.advanced_at, unit.has_advanced = now, True
        for text in unit.progress.take_notes():
            subject = unit.name.rpartition(":")[0]
            self._happened("job.note", subject, f"{unit.task_name}: {text}", unit.record.incarnation)

    def _judge(self, unit: Unit, now: float) -> None:
        finding = judge(unit, self._orders.health, now)
        if finding is None and not unit.is_task:
            finding = stands_still(unit, self._orders.health, now, is_whole=self._peers.is_whole())
        if finding is None:
            return
        if finding.verdict == "down":
            dumping = finding.wants_stacks and unit.task is not None and dump_stacks(unit.task)
            self._set(unit, hangs(unit.record, finding.reason, now + (DUMP_S if dumping else 0.0)))
        else:
            self._happened(f"task.{finding.verdict}", unit.name, finding.reason, unit.record.incarnation)

    # ------------------------------------------------------------------ records

    def _advance_all(self, now: float) -> None:
        """Ask every record for its next step; store all of them; then act."""
        todo: list[tuple[Unit, Action]] = []
        self._waiting_starts = False
        before: dict[str, Record] = {}
        for name, unit in list(self._units.items()):
            order = self._order_of(unit)
            if not unit.record.is_alive:
                if unit.order is None and self._shutdown_grace_s is None:
                    self._forget(unit)
                    continue
                if order.run and not self._may_start(unit):
                    continue
            record = resources.for_generation(unit, self._units.values())
            record, action = advance(record, order, now)
            if action == "start" and not self._starts.take(now):
                self._waiting_starts = True
                continue
            if action == "start":
                record = resources.for_start(unit, record, self._units.values())
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
                    unit.record = _later(before[unit.name], error, now)
            todo = [(unit, action) for unit, action in todo if action != "start"]
        for name, record in before.items():
            self._tell(self._units[name], record)
        for unit, action in todo:
            if action == "start":
                self._start(unit, now)
            else:
                self._signal(unit, signal.SIGTERM if action == "terminate" else signal.SIGKILL)
        if any(action == "start" for _, action in todo):
            self._save_or_note()

    def _order_of(self, unit: Unit) -> Order:
        """What is wanted of a process. One that was moved to another host while this one was away ends at once."""
        if unit.order is None and unit.is_task and unit.name in self._expected:
            return Order(run=False, grace_s=0.0, now=True)
        if self._lease.has_ended:
            return Order(run=False, grace_s=LEASE_GRACE_S, why="stopped: its host was cut off from the controller")
        return unit.lifecycle_order(self._shutdown_grace_s)

    def _set(self, unit: Unit, record: Record) -> None:
        """Change a record, and tell."""
        old, unit.record = unit.record, record
        self._tell(unit, old)

    def _tell(self, unit: Unit, old: Record) -> None:
        """Tell peers and the controller what the change from `old` means."""
        record = unit.record
        self._dirty = True
        if old.state == record.state and old.incarnation == record.incarnation:
            return
        if not unit.is_task and record.state == "stopped" and not old.is_alive:
            return  # it is only held until all of its job may start
        kind = "task" if unit.is_task else "process"
        reason = record.reason
        if record.state == "pending" and old.is_alive:
            wait = 0.0 if record.retry_at is None else max(0.0, record.retry_at - time.monotonic())
            text = f"{reason}; starts again in {wait:.1f} s"
            self._happened(f"{kind}.ended", unit.name, text, old.incarnation, record.history != old.history)
        elif record.state != "pending":
            text = record.hung if record.state == "stopping" else reason
            failure = record.history != old.history and not record.is_alive
            self._happened(f"{kind}.{record.state}", unit.name, text, record.incarnation, failure)
        if unit.is_task:
            if old.state == "running":
                self._peers.went_down(unit, record.hung or reason or record.state)
            if record.state == "running":
                self._peers.came_up(unit)

    def _may_start(self, unit: Unit) -> bool:
        # What a host had to run before it was lost may run elsewhere by now.
        if self._orders.lease_s and not self._told:
            return False
        if unit.is_task:
            return not self._peers.missing(self._orders.expected)
        if isinstance(unit.order, ClientOrder) and not unit.order.needs_task:
            return True
        mine = self._units.get(unit.task_name)
        return mine is None or mine.record.state == "running"

    # ------------------------------------------------------------------ processes

    def _start(self, unit: Unit, now: float) -> None:
        order = unit.order
        assert order is not None
        folder = folder_of(self._runs, unit)
        unit.mark_start()
        try:
            private_folder(folder)
            context = self._context(folder)
            if isinstance(order, TaskOrder):
                start = launch.task_start(context, order, unit.record.incarnation, unit.record.gpus)
            else:
                start = launch.client_start(context, order)
                unit.progress = unit.progress or ProgressFile(launch.progress_path(self.folder, order))
            unit.popen = processes.start_keeper(
                folder,
                start.command,
                log=self.log_of(unit.name),
                rules=self._orders.logs,
                env={**start.env, **self._memory_limit(unit)},
                cwd=start.cwd,
            )
        except (OSError, LauncherError) as error:
            self._start_failed(unit, error, now)
            return
        keeper = identify(unit.popen.pid)
        unit.record = replace(unit.record, keeper_pid=unit.popen.pid, keeper_ticks=keeper.start_ticks if keeper else 0)
        self._watch(unit, now)
        if not unit.is_task:
            self._set(unit, ready(unit.record))
        log.info("started %s, incarnation %d", unit.name, unit.record.incarnation)

    def _context(self, folder: Path) -> launch.Context:
        addresses = self._peers.addresses()
        return launch.Context(
            self.folder,
            folder,
            self._line,
            self._orders,
            addresses,
            self._facts.cores,
            self._task_tls,
            {name: other.record.gpus for name, other in self._units.items() if other.is_task},
        )

    def _start_failed(self, unit: Unit, error: Exception, now: float) -> None:
        if isinstance(error, NoSpace):
            self._no_space(error)
            # The number of this start is used up, but nothing was started.
            record = replace(unit.record, restarts=max(0, unit.record.restarts - 1))
            self._set(unit, _later(record, error, now))
            return
        log.error("cannot start %s: %s", unit.name, error)
        self._set(unit, cannot_start(unit.record, f"cannot start: {error}"))

    def _watch(self, unit: Unit, now: float) -> None:
        unit.watch(self._orders.health, now)
        self._selector.register(unit.pidfd, selectors.EVENT_READ, unit.name)

    def _resolve(self) -> None:
        """Learn the pids of tasks whose keepers have just started."""
        for unit in self._units.values():
            if not unit.record.is_alive or unit.resolved:
                continue
            status = processes.read_status(folder_of(self._runs, unit))
            if status is not None and status.task is not None:
                self._note_pid(unit, status)
                self._dirty = True

    def _note_pid(self, unit: Unit, status: processes.KeeperStatus) -> None:
        assert status.task is not None
        unit.record = replace(
            unit.record,
            keeper_pid=status.keeper.pid,
            keeper_ticks=status.keeper.start_ticks,
            task_pid=status.task.pid,
            task_ticks=status.task.start_ticks,
        )
        unit.resolved = True

    def _signal(self, unit: Unit, number: int) -> None:
        if unit.task is None:
            status = processes.wait_started(folder_of(self._runs, unit))
            if status is not None and status.task is not None:
                self._note_pid(unit, status)
        task = unit.task
        if task is None:  # its keeper died before it started the task; the keeper's end is being reported
            return
        send_signal(task, number, group=True)
        if number == signal.SIGTERM:
            # One that is stopped would never see it.
            send_signal(task, signal.SIGCONT, group=True)

    def _on_exit(self, unit: Unit) -> None:
        """A keeper has ended: so has its task."""
        self._selector.unregister(unit.pidfd)
        self._take_beats()
        status = processes.read_status(folder_of(self._runs, unit))
        if status is not None and status.phase != "ended" and status.task is not None:
            kill_group(status.task)  # the keeper was killed; its task cannot write and is not watched any more
        unit.unwatch()
        self._after_end(unit, processes.ending_of(status))
        self._save_or_note()

    def _memory_limit(self, unit: Unit) -> dict[str, str]:
        """What its keeper must know so that the kernel holds its limit; nothing when it cannot."""
        limit = unit.order.memory_bytes if isinstance(unit.order, TaskOrder) else 0
        group = memory_group.group_of(self.folder, unit.name, unit.record.incarnation)
        return {memory_group.ENVIRONMENT: str(group.procs)} if limit and group.make(limit) else {}

    def _out_of_memory(self, unit: Unit) -> str:
        """What to say of a process that the kernel ended at its limit; empty for any other."""
        limit = unit.order.memory_bytes if isinstance(unit.order, TaskOrder) else 0
        group = memory_group.group_of(self.folder, unit.name, unit.record.incarnation)
        if not limit or not group.exists:
            return ""
        killed, peak = group.has_killed(), group.peak_bytes()
        group.remove()
        return f"out of memory: it used {peak >> 20} MiB, its limit is {limit >> 20} MiB" if killed else ""

    def _after_end(self, unit: Unit, ending: Ending) -> None:
        self._read_progress(unit, time.monotonic())
        record = unit.record
        if ending.exit_code == ADDRESS_IN_USE_EXIT and isinstance(unit.order, TaskOrder):
            record = replace(record, port=0)
        order = self._order_of(unit)
        if ending.is_failure and record.state != "stopping":
            unit.last_lines = logs.last_errors(self.log_of(unit.name), unit.started_stamp)
        policy = unit.policy(self._orders.restart)
        if ending.is_failure:
            match = logs.matches(self.log_of(unit.name), unit.started_stamp, policy.never_log)
            ending = replace(ending, log_match=match)
            blame = logs.matches(self.log_of(unit.name), unit.started_stamp, self._orders.bad_host_log)
            if blame:
                self._happened("host.bad", f"host:{self.host}", f"the log of {unit.name} matches {blame!r}")
        hungry = self._out_of_memory(unit)
        if hungry and record.state != "stopping":
            record = replace(record, hung=hungry)
        after = ended(
            record,
            order,
            policy,
            ending,
            now=time.monotonic(),
            rand=random.random(),
        )
        after = replace(after, keeper_pid=0, keeper_ticks=0, task_pid=0, task_ticks=0)
        shutil.rmtree(folder_of(self._runs, unit), ignore_errors=True)
        self._set(unit, after)

    def _forget(self, unit: Unit) -> None:
        """Nobody wants to know about it any more."""
        del self._units[unit.name]
        if unit.is_task and unit.name not in self._expected:
            self._peers.went_away(unit)
        shutil.rmtree(folder_of(self._runs, unit).parent, ignore_errors=True)
        self._dirty = True

    # ------------------------------------------------------------------ beats and peers

    def _take_beats(self) -> None:
        now = time.monotonic()
        for beat in self._line.take():
            self._on_beat(beat, now)

    def _on_beat(self, beat: beats.Beat, now: float) -> None:
        unit = self._units.get(beat.task)
        if unit is None or unit.monitor is None or unit.record.incarnation != beat.incarnation:
            return
        unit.monitor.beat(now)
        unit.steps = beat.steps
        unit.transport = beat.transport
        if unit.unreachable != beat.unreachable:
            unit.unreachable, self._dirty = beat.unreachable, True
        if beat.ready and unit.record.state == "starting":
            self._set(unit, ready(unit.record))
            unit.health = unit.monitor.tick(now)
            self._save_or_note()

    # ------------------------------------------------------------------ state, report

    def _adopt(self, saved: state.Saved) -> None:
        """Take over the processes of a former agent of this host."""
        self._orders = saved.orders
        self._expected = frozenset(saved.orders.expected)
        if saved.going_down:
            self._shutdown_grace_s = ADOPTED_GRACE_S
        wanted: dict[str, Any] = {order.name: order for order in saved.orders.tasks}
        wanted |= {order.name: order for order in saved.orders.clients}
        now = time.monotonic()
        for name, record in saved.records.items():
            unit = self._units[name] = Unit(name, record)
            unit.order = wanted.get(name)
            if isinstance(unit.order, ClientOrder):
                unit.progress = ProgressFile(launch.progress_path(self.folder, unit.order))
                unit.progress.poll()
                unit.progress.take_notes()  # the former agent has told them
        self._peers.know(saved.orders.peers, saved.orders.expected)
        for unit in self._units.values():
            if unit.record.is_alive:
                self._adopt_unit(unit, now)
        self._happened("agent.started", f"host:{self.host}", f"pid {os.getpid()}")
        self._save()

    def _adopt_unit(self, unit: Unit, now: float) -> None:
        status = processes.forbid_start(folder_of(self._runs, unit))
        if status is None:  # it was about to be started, and now never will be
            unit.record = replace(unit.record, state="pending", retry_at=now, started_at=None)
            return
        if status.task is not None:
            self._note_pid(unit, status)
        if status.phase == "ended" or identify(status.keeper.pid) != status.keeper:
            if status.phase != "ended" and status.task is not None:
                kill_group(status.task)
            self._after_end(unit, processes.ending_of(status))
            unit.resolved = False
            return
        self._watch(unit, now)
        kind = "task" if unit.is_task else "process"
        self._happened(f"{kind}.adopted", unit.name, "by a new agent", unit.record.incarnation)

    def _save(self) -> None:
        records = {name: unit.record for name, unit in self._units.items()}
        state.save(self._state_file, self._sockets, self._orders, records, self._shutdown_grace_s is not None)
        self._problem = ""

    def _save_or_note(self) -> None:
        try:
            self._save()
        except NoSpace as error:
            self._no_space(error)

    def _no_space(self, error: NoSpace) -> None:
        if self._problem != error.message:
            log.error("%s", error.message)
            self._happened("host.no-space", f"host:{self.host}", error.message)
        self._problem = error.message
        self._dirty = True

    def _happened(self, kind: str, subject: str, reason: str = "", incarnation: int = 0, failure: bool = False) -> None:
        self.reports.happened(kind, subject, reason, incarnation, failure)
        self._dirty = True
        log.info("%s %s %s", kind, subject, reason)

    def _publish(self, now: float) -> None:
        self._dirty = False
        report = compose(
            Report(self.host, self.boot, os.getpid(), self._orders.revision, self._orders.epoch, problem=self._problem),
            self._facts,
            self._units.values(),
            self._peers.addresses(),
            self.advertise,
            now,
        )
        self.reports.publish(report)


def _later(record: Record, error: NoSpace, now: float) -> Record:
    """The start has to wait until there is space; that is no failure of the task."""
    return replace(record, state="pending", retry_at=now + NO_SPACE_RETRY_S, reason=error.message)
