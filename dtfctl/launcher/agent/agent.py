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
import socket
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Condition
from typing import Any, TypeVar

from dtfctl.health import beats
from dtfctl.health.restart import Ending
from dtfctl.launcher import codec
from dtfctl.launcher.agent import launch, logs, ports, processes
from dtfctl.launcher.agent.contract import (
    ADDRESS_IN_USE_EXIT,
    ClientOrder,
    Happening,
    HostOrders,
    Peer,
    Report,
    TaskOrder,
)
from dtfctl.launcher.agent.facts import HostFacts, gpu_count, read_facts
from dtfctl.launcher.agent.lifecycle import (
    Action,
    Record,
    advance,
    cannot_start,
    ended,
    hangs,
    next_time,
    ready,
)
from dtfctl.launcher.agent.progress import ProgressFile
from dtfctl.launcher.agent.unit import Unit, folder_of
from dtfctl.launcher.certificates import TlsFiles
from dtfctl.launcher.errors import Conflict, LauncherError, NoSpace
from dtfctl.launcher.files import private_folder, write_whole
from dtfctl.launcher.loop import Mailbox
from dtfctl.launcher.paths import make_socket_folder
from dtfctl.launcher.procfs import boot_id, identify, kill_group, send_signal

log = logging.getLogger(__name__)
T = TypeVar("T")

RESOLVE_S = 0.01
"""How often a new keeper's status file is looked at until it names the task's pid."""
NO_SPACE_RETRY_S = 1.0
KEPT_HAPPENINGS = 10_000
FACTS_S = 2.0


@dataclass(frozen=True, slots=True)
class Saved:
    """The agent's state file."""

    boot_id: str
    socket_folder: str = ""
    orders: HostOrders = field(default_factory=HostOrders)
    records: dict[str, Record] = field(default_factory=dict)


class Agent:
    """All processes of one cluster on one host."""

    def __init__(self, host: str, folder: Path, log_folder: Path, advertise: str = "127.0.0.1") -> None:
        self.host = host
        self.folder = private_folder(folder)
        self.log_folder = private_folder(log_folder)
        self.advertise = advertise
        self.boot = os.urandom(8).hex()
        self._state_file = folder / "state.json"
        self._runs = folder / "runs"
        self._orders = HostOrders()
        self._units: dict[str, Unit] = {}
        self._peers: dict[str, Peer] = {}
        self._outbox: deque[tuple[str, bytes]] = deque()
        self._happenings: deque[Happening] = deque(maxlen=KEPT_HAPPENINGS)
        self._happening_count = 0
        self._problem = ""
        self._facts: HostFacts = read_facts(folder)
        self._facts_at = 0.0
        self._shutdown_grace_s: float | None = None
        self._dirty = False
        self._next_tick = 0.0
        self._mailbox = Mailbox(self._wake)
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._changed = Condition()
        self._version = 0
        self._report = Report(host, self.boot, os.getpid())
        self.finished = False
        saved = self._load()
        self._sockets = Path(saved.socket_folder) if saved.socket_folder else make_socket_folder(folder)
        private_folder(self._sockets)
        self._beat_socket = self._bind_beats()
        self._selector.register(self._beat_socket, selectors.EVENT_READ, None)
        self._adopt(saved)

    # ------------------------------------------------------------------ calls from other threads

    def call(self, function: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Run `function` in the loop's thread and wait for its result."""
        return self._mailbox.call(function, timeout_s)

    def _wake(self) -> None:
        try:
            os.write(self._wake_write, b"x")
        except BlockingIOError:  # full: it is being woken already
            return

    def apply(self, orders: HostOrders) -> None:
        """Take over the controller's orders. Loop thread."""
        if orders.epoch < self._orders.epoch:
            raise Conflict(f"orders of controller epoch {orders.epoch} come after those of {self._orders.epoch}")
        if orders.epoch == self._orders.epoch and orders.revision < self._orders.revision:
            return
        self._orders = orders
        wanted: dict[str, TaskOrder | ClientOrder] = {order.name: order for order in orders.tasks}
        wanted |= {order.name: order for order in orders.clients}
        for name in wanted:
            if name not in self._units:
                self._units[name] = Unit(name, Record())
        for name, unit in self._units.items():
            unit.order = wanted.get(name)
        self._choose_ports()
        self._take_peers(orders.peers)
        self._dirty = True

    def shutdown(self, grace_s: float) -> None:
        """Stop all processes; `run` returns when they have ended. Loop thread."""
        self._shutdown_grace_s = grace_s
        self._dirty = True

    def newest_report(self) -> Report:
        with self._changed:
            return self._report

    def wait_report(self, version: int, timeout_s: float) -> tuple[int, Report]:
        """The newest report once there is a newer one than `version`, or after `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version or self.finished, timeout_s)
            return self._version, self._report

    def happenings_after(self, number: int) -> tuple[Happening, ...]:
        with self._changed:
            return tuple(item for item in self._happenings if item.number > number)

    def log_of(self, process: str) -> Path:
        """The log file of `worker/1`, `job:ID:worker/0` or `agent`."""
        if process.startswith("job:"):
            _, job_id, task = process.split(":")
            return self.log_folder / "jobs" / job_id / f"{task.replace('/', '-')}.log"
        return self.log_folder / f"{process.replace('/', '-')}.log"

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        """Work until `shutdown` is done."""
        while not self.finished:
            for key, _ in self._selector.select(self._sleep_s()):
                if key.fd == self._wake_read:
                    os.read(self._wake_read, 4096)
                elif key.fileobj is self._beat_socket:
                    continue
                elif isinstance(key.data, str):
                    self._on_exit(self._units[key.data])
            self._take_beats()
            self._mailbox.run_all()
            now = time.monotonic()
            self._resolve()
            if now >= self._next_tick:
                self._tick(now)
                self._next_tick = now + self._orders.health.beat_s
            self._advance_all(now)
            self._send_outbox()
            if self._dirty:
                self._publish(now)
            if self._shutdown_grace_s is not None and not any(u.record.is_alive for u in self._units.values()):
                self._publish(now)
                self.finished = True
        self._mailbox.close()
        self._beat_socket.close()
        shutil.rmtree(self._sockets, ignore_errors=True)
        with self._changed:
            self._changed.notify_all()

    def _sleep_s(self) -> float:
        if self._dirty:
            return 0.0
        times = [self._next_tick]
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
        for unit in self._units.values():
            if unit.record.is_alive:
                unit.look(now)
                self._judge(unit, now)
            if unit.progress is not None:
                unit.progress.poll()
        if now - self._facts_at >= FACTS_S:
            self._facts, self._facts_at = read_facts(self.folder), now
        self._dirty = True

    def _judge(self, unit: Unit, now: float) -> None:
        limits = self._orders.health
        record = unit.record
        stopped_s = 0.0 if unit.stopped_since is None else now - unit.stopped_since
        if record.state == "starting" and record.started_at is not None and unit.is_task:
            if now - record.started_at > limits.startup_s:
                self._set(unit, hangs(record, f"not ready after {limits.startup_s:.0f} s", now))
            return
        if record.state != "running":
            return
        if unit.monitor is None:
            if stopped_s >= limits.down_after_s:
                self._set(unit, hangs(record, f"stopped by a signal for {stopped_s:.1f} s", now))
            return
        before, unit.health = unit.health, unit.monitor.tick(now)
        if unit.health == before:
            return
        silence = unit.monitor.silence_s(now)
        cause = "stopped by a signal" if unit.stopped_since is not None else "hangs"
        if unit.health == "suspect":
            self._happened("task.suspect", unit.name, f"no beat for {silence:.1f} s", record.incarnation)
        elif unit.health == "down":
            self._set(unit, hangs(record, f"{cause}: no beat for {silence:.1f} s", now))
        elif before == "suspect":
            self._happened("task.healthy", unit.name, "beats again", record.incarnation)

    # ------------------------------------------------------------------ records

    def _advance_all(self, now: float) -> None:
        """Ask every record for its next step; store all of them; then act."""
        todo: list[tuple[Unit, Action]] = []
        before: dict[str, Record] = {}
        for name, unit in list(self._units.items()):
            order = unit.lifecycle_order(self._shutdown_grace_s)
            if not unit.record.is_alive:
                if unit.order is None and self._shutdown_grace_s is None:
                    self._forget(unit)
                    continue
                if order.run and not self._may_start(unit):
                    continue
            record, action = advance(unit.record, order, now)
            if action == "start":
                record = self._prepare(unit, record)
                action = "start" if record.state == "starting" else None
            if record is unit.record:
                continue
            before[name] = unit.record
            if action is not None:
                todo.append((unit, action))
            self._set(unit, record)
        if not before:
            return
        try:
            self._save()
        except NoSpace as error:
            self._no_space(error)
            for unit, action in todo:
                if action == "start":
                    unit.record = replace(
                        before[unit.name], state="pending", retry_at=now + NO_SPACE_RETRY_S, reason=error.message
                    )
            todo = [(unit, action) for unit, action in todo if action != "start"]
        for unit, action in todo:
            if action == "start":
                self._start(unit, now)
            else:
                self._signal(unit, signal.SIGTERM if action == "terminate" else signal.SIGKILL)
        if any(action == "start" for _, action in todo):
            self._save_or_note()

    def _set(self, unit: Unit, record: Record) -> None:
        """Change a record; tell peers and the controller what that means."""
        old, unit.record = unit.record, record
        self._dirty = True
        if old.state == record.state and old.incarnation == record.incarnation:
            return
        kind = "task" if unit.is_task else "process"
        reason = record.reason
        if record.state == "pending" and old.is_alive:
            wait = 0.0 if record.retry_at is None else max(0.0, record.retry_at - time.monotonic())
            self._happened(f"{kind}.ended", unit.name, f"{reason}; starts again in {wait:.1f} s", old.incarnation)
        elif record.state != "pending":
            text = record.hung if record.state == "stopping" else reason
            self._happened(f"{kind}.{record.state}", unit.name, text, record.incarnation)
        if unit.is_task:
            if old.state == "running":
                self._announce(unit, up=False, reason=record.hung or reason or record.state)
            if record.state == "running":
                self._announce(unit, up=True)

    def _may_start(self, unit: Unit) -> bool:
        if unit.is_task:
            known = self._addresses()
            return all(name in known for name in self._orders.expected)
        mine = self._units.get(unit.task_name)
        return mine is None or mine.record.state == "running"

    def _prepare(self, unit: Unit, record: Record) -> Record:
        """Ports and GPUs of a task that is about to start."""
        order = unit.order
        if not isinstance(order, TaskOrder):
            return record
        try:
            taken = {u.record.port for u in self._units.values() if u is not unit and u.is_task}
            port = ports.choose(order.first_port, order.last_port, taken, record.port)
            return replace(record, port=port, gpus=self._choose_gpus(unit, order.gpus))
        except LauncherError as error:
            return cannot_start(record, error.message)

    def _choose_ports(self) -> None:
        """Give every new task its port at once: the others must know it before they start."""
        taken = {unit.record.port for unit in self._units.values() if unit.is_task}
        for unit in self._units.values():
            order = unit.order
            if not isinstance(order, TaskOrder) or unit.record.port or unit.record.state != "pending":
                continue
            try:
                port = ports.choose(order.first_port, order.last_port, taken)
            except LauncherError as error:
                if order.run:
                    self._set(unit, cannot_start(unit.record, error.message))
                continue
            unit.record = replace(unit.record, port=port)
            taken.add(port)

    def _choose_gpus(self, unit: Unit, count: int) -> tuple[int, ...]:
        used = {gpu for u in self._units.values() if u is not unit and u.record.is_alive for gpu in u.record.gpus}
        free = [gpu for gpu in range(gpu_count()) if gpu not in used] if count else []
        if len(free) < count:
            raise LauncherError(f"needs {count} GPUs, this host has {len(free)} free")
        return tuple(free[:count])

    # ------------------------------------------------------------------ processes

    def _start(self, unit: Unit, now: float) -> None:
        order = unit.order
        assert order is not None
        folder = folder_of(self._runs, unit)
        unit.mark_start()
        try:
            private_folder(folder)
            if isinstance(order, TaskOrder):
                command, env, cwd = self._task_launch(unit, order, folder)
            else:
                command, env, cwd = self._client_launch(unit, order)
            unit.popen = processes.start_keeper(
                folder, command, log=self.log_of(unit.name), rules=self._orders.logs, env=env, cwd=cwd
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

    def _start_failed(self, unit: Unit, error: Exception, now: float) -> None:
        if isinstance(error, NoSpace):
            self._no_space(error)
            self._set(
                unit, replace(unit.record, state="pending", retry_at=now + NO_SPACE_RETRY_S, reason=error.message)
            )
            return
        log.error("cannot start %s: %s", unit.name, error)
        self._set(unit, cannot_start(unit.record, f"cannot start: {error}"))

    def _task_launch(self, unit: Unit, order: TaskOrder, folder: Path) -> tuple[tuple[str, ...], dict[str, str], Path]:
        table: dict[str, dict[int, str]] = {}
        for name, address in self._addresses().items():
            job, _, index = name.partition("/")
            table.setdefault(job, {})[int(index)] = address
        file_name = unit.name.replace("/", "-")
        tls_folder = self._orders.tls_folder
        config = launch.TaskConfig(
            cluster=table,
            job=order.job,
            index=order.index,
            incarnation=unit.record.incarnation,
            listen=self._addresses()[unit.name],
            socket_path=self._socket_of(unit.name),
            control_path=self._sockets / f"{file_name}.ctl",
            agent_path=self._sockets / "agent.sock",
            tls=TlsFiles.of(Path(tls_folder), f"task-{file_name}") if tls_folder else None,
            state_folder=private_folder(self.folder / "tasks" / file_name),
            beat_s=self._orders.health.beat_s,
            grace_s=order.grace_s,
        )
        for stale in (config.socket_path, config.control_path):
            stale.unlink(missing_ok=True)
        path = folder / "config.json"
        write_whole(path, codec.encode(config).encode())
        some_gpus = any(task.gpus for task in self._orders.tasks)
        base = launch.base_environment(launch.inherited_environment(), self._facts.cores, len(self._orders.tasks))
        env = launch.task_environment(base, order, unit.record.gpus if some_gpus else None)
        return (*self._orders.task_command, str(path)), env, folder

    def _client_launch(self, unit: Unit, order: ClientOrder) -> tuple[tuple[str, ...], dict[str, str], Path]:
        progress = private_folder(self.folder / "progress" / order.job_id) / f"{order.job}-{order.index}.jsonl"
        if unit.progress is None:
            unit.progress = ProgressFile(progress)
        base = launch.base_environment(launch.inherited_environment(), self._facts.cores, len(self._orders.tasks))
        env = launch.client_environment(
            base, order, self._addresses(), self._socket_of(unit.task_name), progress, self._orders.cluster
        )
        cwd = Path(order.cwd)
        return order.command, env, cwd if cwd.is_dir() else self.folder

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

    def _after_end(self, unit: Unit, ending: Ending) -> None:
        if unit.progress is not None:
            unit.progress.poll()
        record = unit.record
        if ending.exit_code == ADDRESS_IN_USE_EXIT and isinstance(unit.order, TaskOrder):
            record = replace(record, port=0)
        order = unit.lifecycle_order(self._shutdown_grace_s)
        if ending.is_failure and record.state != "stopping":
            unit.last_lines = logs.last_errors(self.log_of(unit.name), unit.started_stamp)
        after = ended(
            record,
            order,
            unit.policy(self._orders.restart),
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
        shutil.rmtree(folder_of(self._runs, unit).parent, ignore_errors=True)
        self._dirty = True

    # ------------------------------------------------------------------ beats and peers

    def _bind_beats(self) -> socket.socket:
        path = self._sockets / "agent.sock"
        path.unlink(missing_ok=True)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
        sock.bind(str(path))
        return sock

    def _socket_of(self, task_name: str) -> Path:
        return self._sockets / f"{task_name.replace('/', '-')}.sock"

    def _take_beats(self) -> None:
        now = time.monotonic()
        while True:
            try:
                data = self._beat_socket.recv(beats.LARGEST_DATAGRAM)
            except BlockingIOError:
                return
            try:
                note = beats.unpack(data)
            except ValueError as error:
                log.warning("ignored a datagram: %s", error)
                continue
            if isinstance(note, beats.Beat):
                self._on_beat(note, now)

    def _on_beat(self, beat: beats.Beat, now: float) -> None:
        unit = self._units.get(beat.task)
        if unit is None or unit.monitor is None or unit.record.incarnation != beat.incarnation:
            return
        unit.monitor.beat(now)
        unit.steps = beat.steps
        if beat.ready and unit.record.state == "starting":
            self._set(unit, ready(unit.record))
            unit.health = unit.monitor.tick(now)
            self._save_or_note()

    def _addresses(self) -> dict[str, str]:
        """Every task's address, as far as it is known."""
        known = {peer.name: peer.address for peer in self._orders.peers}
        for unit in self._units.values():
            if unit.is_task and unit.record.port:
                known[unit.name] = f"{self.advertise}:{unit.record.port}"
        return known

    def _announce(self, unit: Unit, *, up: bool, reason: str = "") -> None:
        """Tell all tasks of this host that one of them came up or went down."""
        job, _, index = unit.name.partition("/")
        address = self._addresses().get(unit.name, "")
        self._announce_peer(Peer(job, int(index), address, unit.record.incarnation, up, reason))
        if up:
            for peer in self._all_peers():
                if peer.name != unit.name and (peer.up or peer.incarnation):
                    self._outbox.append((unit.name, beats.pack(_note(peer))))

    def _announce_peer(self, peer: Peer) -> None:
        data = beats.pack(_note(peer))
        for other in self._units.values():
            if other.is_task and other.name != peer.name and other.record.state == "running":
                self._outbox.append((other.name, data))

    def _all_peers(self) -> list[Peer]:
        peers = list(self._peers.values())
        addresses = self._addresses()
        for unit in self._units.values():
            if unit.is_task:
                job, _, index = unit.name.partition("/")
                up = unit.record.state == "running"
                address = addresses.get(unit.name, "")
                peers.append(Peer(job, int(index), address, unit.record.incarnation, up, unit.record.reason))
        return peers

    def _take_peers(self, peers: tuple[Peer, ...]) -> None:
        for peer in peers:
            before = self._peers.get(peer.name)
            self._peers[peer.name] = peer
            if before != peer and (peer.up or before is not None):
                self._announce_peer(peer)

    def _send_outbox(self) -> None:
        for _ in range(len(self._outbox)):
            name, data = self._outbox.popleft()
            unit = self._units.get(name)
            if unit is None or unit.record.state != "running":
                continue
            try:
                self._beat_socket.sendto(data, str(self._sockets / f"{name.replace('/', '-')}.ctl"))
            except BlockingIOError:
                self._outbox.append((name, data))
            except (FileNotFoundError, ConnectionRefusedError) as error:
                log.warning("cannot tell %s about a peer: %s", name, error)

    # ------------------------------------------------------------------ state, report

    def _load(self) -> Saved:
        try:
            saved = codec.decode(Saved, self._state_file.read_bytes())
        except FileNotFoundError:
            return Saved(boot_id())
        except ValueError as error:
            raise LauncherError(f"{self._state_file} is damaged: {error}") from error
        if saved.boot_id != boot_id():
            records = {
                name: replace(record, retry_at=None, kill_at=None, started_at=None, keeper_pid=0, task_pid=0)
                for name, record in saved.records.items()
            }
            return Saved(boot_id(), "", saved.orders, records)
        return saved

    def _adopt(self, saved: Saved) -> None:
        """Take over the processes of a former agent of this host."""
        self._orders = saved.orders
        wanted: dict[str, Any] = {order.name: order for order in saved.orders.tasks}
        wanted |= {order.name: order for order in saved.orders.clients}
        now = time.monotonic()
        for name, record in saved.records.items():
            unit = self._units[name] = Unit(name, record)
            unit.order = wanted.get(name)
            if isinstance(unit.order, ClientOrder):
                _, job_id, task = name.split(":")
                unit.progress = ProgressFile(self.folder / "progress" / job_id / f"{task.replace('/', '-')}.jsonl")
                unit.progress.poll()
        for peer in saved.orders.peers:
            self._peers[peer.name] = peer
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
        saved = Saved(boot_id(), str(self._sockets), self._orders, records)
        write_whole(self._state_file, codec.encode(saved).encode())
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

    def _happened(self, kind: str, subject: str, reason: str = "", incarnation: int = 0) -> None:
        with self._changed:
            self._happening_count += 1
            self._happenings.append(Happening(self._happening_count, time.time(), kind, subject, reason, incarnation))
        self._dirty = True
        log.info("%s %s %s", kind, subject, reason)

    def _publish(self, now: float) -> None:
        self._dirty = False
        addresses = self._addresses()
        units = self._units.values()
        facts = self._facts
        report = Report(
            host=self.host,
            boot=self.boot,
            pid=os.getpid(),
            revision=self._orders.revision,
            epoch=self._orders.epoch,
            tasks=tuple(unit.task_report(addresses.get(unit.name, ""), now) for unit in units if unit.is_task),
            clients=tuple(unit.client_report() for unit in units if not unit.is_task),
            cores=facts.cores,
            load=facts.load,
            memory_bytes=facts.memory_bytes,
            memory_free_bytes=facts.memory_free_bytes,
            disk_free_bytes=facts.disk_free_bytes,
            gpus=facts.gpus,
            problem=self._problem,
        )
        with self._changed:
            self._report = report
            self._version += 1
            self._changed.notify_all()


def _note(peer: Peer) -> beats.Note:
    if peer.up:
        return beats.PeerUp(peer.job, peer.index, peer.address, peer.incarnation)
    return beats.PeerDown(peer.job, peer.index, peer.incarnation, peer.reason)
