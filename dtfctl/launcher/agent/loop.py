"""The agent's loop: the one thread that owns all units (`supervisor.py`), and has done what `lifecycle.py` decides.

It sleeps in one place and is woken by the end of a keeper (pidfd), a beat (datagram), a call (wake-up pipe) or the
next time in a record.
"""

from __future__ import annotations

import math
import os
import selectors
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dtfctl import guard
from dtfctl.durable import remove_left
from dtfctl.launcher.agent.lease import Lease, can_reach, is_forwarded, stream_says, way_back
from dtfctl.launcher.agent.start import launch
from dtfctl.launcher.agent.start.preparations import Preparations
from dtfctl.launcher.agent.start.seeds import Seed
from dtfctl.launcher.agent.start.uses import USED_S, note_uses
from dtfctl.launcher.agent.tell.reports import Reports
from dtfctl.launcher.agent.units.lifecycle import hangs
from dtfctl.launcher.agent.units.supervisor import Supervisor
from dtfctl.launcher.agent.units.unit import Unit
from dtfctl.launcher.errors import ClusterFailed, NotFound, Superseded
from dtfctl.launcher.identity.keyring import Keyring
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.system.files import private_folder
from dtfctl.launcher.system.host_facts import HostFacts, read_facts
from dtfctl.launcher.system.mailbox import Mailbox
from dtfctl.launcher.system.procfs import dump_stacks
from dtfctl.launcher.system.pulse import Pulse
from dtfctl.net.tls_socket import Echo

if TYPE_CHECKING:
    from dtfctl.launcher.checkpoints.folders import Folders

T = TypeVar("T")

FACTS_S = 2.0
SHORTEST_S = 0.002
"""The loop never turns faster without news."""
LONGEST_S = 0.5
"""Nor slower, however rarely tasks beat: who looks at its pulse must see that it lives."""
DUMP_S = 1.0
"""The seconds for a process that hangs to write where its threads stand, before it is killed."""


class FolderGone(ClusterFailed):
    """The agent's folder was deleted: what it stores and where it hears its tasks went with it."""


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
        self.advertise = advertise
        self._came_from = came_from
        self.folder = private_folder(folder)
        self._inode = self.folder.stat().st_ino
        self._may_end = False
        self._delete_logs = False
        self._next_tick = 0.0
        self._look_at = math.inf
        """When a task will have been silent for too long, should that be before the next tick."""
        self._due_at = 0.0
        """When there is something to do without being told."""
        self.pulse = Pulse()
        self._mailbox = Mailbox(self._wake)
        remove_left(folder)
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self.finished = False
        self._facts: HostFacts = read_facts(folder)
        self._facts_at = 0.0
        self._uses_at = -math.inf
        self.keyring = Keyring(host, certificates, folder)
        logs = private_folder(log_folder)
        self._units = Supervisor(host, folder, logs, self.keyring, advertise, self._selector, self.look_again)
        self._state = self._units.state
        self._selector.register(self._state.socket.socket, selectors.EVENT_READ, None)
        self._lease = Lease()
        self._controller = ""
        self._watched: Callable[[], Echo] | None = None
        """The stream of reports that was begun last, while it is open."""
        self._lease.renew(time.monotonic(), self._state.orders.lease_s, self._lease.term)

    @property
    def folders(self) -> Folders:
        """The folders of jobs' checkpoints.

        Raises:
            NotFound: there are none.
        """
        if self._state.folders is None:
            raise NotFound("no job keeps checkpoints here")
        return self._state.folders

    def listens_at(self, address: str) -> None:
        """Note the address at which other hosts reach the agent."""
        self._state.address = address

    @property
    def boot(self) -> str:
        """Names this life of the agent."""
        return self._state.boot

    @property
    def reports(self) -> Reports:
        """The agent's reports, for any thread."""
        return self._state.reports

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
        now = self._state.orders
        if orders.epoch < now.epoch:
            raise Superseded(f"orders of controller epoch {orders.epoch} come after those of {now.epoch}")
        if orders.epoch == now.epoch and orders.revision < now.revision:
            return
        self._units.take(orders)
        self._controller, self._state.is_told = controller, True
        if not (self._lease.has_ended and orders.lease_s):  # else they may have been sent long ago
            self._heard(self._lease.term)

    def renew(self, epoch: int, revision: int, term: int, controller: str) -> int:
        """Renew the lease where the controller still means these orders; return the revision of them. Loop thread."""
        now = self._state.orders
        if (epoch, revision) == (now.epoch, now.revision):
            self._controller, self._state.is_told = controller, True
            self._heard(term)
        return now.revision if epoch == now.epoch else 0

    @property
    def term(self) -> int:
        """The number of the lease that a renewal has to name."""
        return self._lease.term

    def _heard(self, term: int) -> None:
        had_ended = self._lease.has_ended
        if self._lease.renew(time.monotonic(), self._state.orders.lease_s, term):
            self._state.is_cut_off = False
            if had_ended:
                self._state.happened("host.lease-renewed", f"host:{self.host}", "the controller is there again")

    def _look_at_lease(self, now: float) -> None:
        outlook = self._lease.look(now)
        if outlook == "ended":
            self._state.is_cut_off = True
            text = f"no word of the controller for {self._lease.length_s:.0f} s: stops its tasks"
            self._state.happened("host.lease-ended", f"host:{self.host}", text)
        elif outlook == "ask":
            controller = way_back(self._controller, self.advertise, self._came_from)
            watched = self._watched
            said = stream_says(None if watched is None else watched(), self._lease.length_s)

            def ask() -> None:
                reachable = can_reach(controller) if said is None else said
                self._mailbox.post(lambda: self._lease.answer(time.monotonic(), reachable=reachable))

            guard.once(ask, name="lease").start()

    def is_watched(self, by: str, echo: Callable[[], Echo]) -> Callable[[], None]:
        """Note that the controller follows the reports; return what to call when it does so no more. Any thread.

        Of a stream that is forwarded, the end that answers is on this host: it says nothing.
        """
        if is_forwarded(by, self.advertise):
            return lambda: None
        self._watched = echo

        def end() -> None:
            if self._watched is echo:
                self._watched = None

        return end

    def look_again(self) -> None:
        """Look whether something that a start waits for has come. Any thread."""
        self._mailbox.post(lambda: None)

    @property
    def preparations(self) -> Preparations:
        """The preparations of jobs; their files may be used by any thread."""
        return self._state.preparations

    def shutdown(self, grace_s: float, delete_logs: bool = False) -> None:
        """Stop all processes; `run` returns when they have ended. Loop thread."""
        self._may_end = True
        self._delete_logs = delete_logs
        self._units.end_all(grace_s)

    def log_of(self, process: str) -> Path:
        """Find the log file of `worker/1`, `job:ID.UID:worker/0` or `agent`."""
        return self._state.log_of(process)

    def surroundings(self, process: str, job_folder: str = "") -> launch.Surroundings:
        """Find the surroundings of a command for `worker/1` or `job:ID:worker/0`, or of the host (""). Loop thread."""
        return self._state.surroundings(process, job_folder)

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        """Work until `shutdown` is done.

        Raises:
            FolderGone: nothing runs any more, and another agent has to begin anew.
        """
        try:
            guard.run(self._work, name="the agent's loop", unless=FolderGone)
        except FolderGone:
            self._units.kill_all()
            raise
        finally:
            self._mailbox.close()
        if self._delete_logs:
            self._state.delete_logs()
        self._units.close()

    def _work(self) -> None:
        units, state = self._units, self._state
        self._look_at_folder()  # first: what fails for want of it is tried again from here
        while not self.finished:
            self.pulse.beat()
            has_news = self._wait()
            units.take_beats()
            now = time.monotonic()
            if not (has_news or state.dirty) and now < self._due_at:
                continue  # beats of tasks that are as they were: nearly every turn is one of these
            if now >= self._next_tick:
                self._look_at_folder()
            self._mailbox.run_all()
            units.learn_pids()
            if now >= self._next_tick:
                self._tick(now)
                self._next_tick = now + state.orders.health.beat_s
            elif now >= self._look_at:
                self._look_for_the_silent(now)
            units.advance_all(now)
            state.peers.flush()
            is_over = self._may_end and units.is_empty
            if state.dirty or is_over:
                units.publish(self._facts, now)
            self.finished = is_over
            now = time.monotonic()
            self._due_at = (
                now if state.dirty else max(now + SHORTEST_S, min(self._next_tick, self._look_at, units.next_time(now)))
            )

    def _wait(self) -> bool:
        """Wait until something happens; return whether anything but beats did."""
        has_news = False
        ended = []
        for key, _ in self._selector.select(min(LONGEST_S, max(0.0, self._due_at - time.monotonic()))):
            if key.fileobj is self._state.socket.socket:
                continue
            if key.fd == self._wake_read:
                os.read(self._wake_read, 4096)
            elif isinstance(key.data, Seed):
                self._units.hear_seed(key.data)
            elif isinstance(key.data, str):
                ended.append(key.data)
            has_news = True
        if ended:
            self._units.processes_ended(ended)
        return has_news

    def _look_at_folder(self) -> None:
        """Raise FolderGone where it is not there, or another one that something has made in its place."""
        try:
            if self.folder.stat().st_ino == self._inode:
                return
        except FileNotFoundError:
            pass
        raise FolderGone(f"{self.folder} was deleted: what runs here is killed, and the agent ends")

    def _tick(self, now: float) -> None:
        """Look at processes, judge their health and renew the report, every beat."""
        self._look_at_lease(now)
        for unit in self._state.units():
            if unit.record.is_alive:
                unit.look(now)
                self._judge(unit, now)
        for process in self._state.jobs.values():
            process.read_progress(now)
        if self._units.problem:
            self._units.save_or_note()
        self._units.control.look_at_seeds()
        if now - self._facts_at >= FACTS_S:
            self._facts, self._facts_at = read_facts(self.folder), now
        if now - self._uses_at >= USED_S:
            self._uses_at = now
            environments = self.preparations.environments
            guard.once(lambda: note_uses(Path(sys.prefix), environments), name="uses").start()
        self._state.dirty = True
        self._look_at = self._next_look(now)

    def _look_for_the_silent(self, now: float) -> None:
        """Judge the tasks between two ticks, by their beats alone."""
        for task in self._state.tasks.values():
            if task.record.is_alive:
                self._judge(task, now)
        self._look_at = self._next_look(now)

    def _next_look(self, now: float) -> float:
        tasks = self._state.tasks.values()
        return min((task.monitor.look_at(now) for task in tasks if task.monitor is not None), default=math.inf)

    def _judge(self, unit: Unit, now: float) -> None:
        finding = unit.judge(self._state.orders.health, now)
        if finding is None:
            return
        if finding.verdict == "down":
            dumping = finding.wants_stacks and unit.task is not None and dump_stacks(unit.task)
            self._state.set(unit, hangs(unit.record, finding.reason, now + (DUMP_S if dumping else 0.0)))
        else:
            self._state.happened(f"task.{finding.verdict}", unit.name, finding.reason, unit.record.incarnation)
