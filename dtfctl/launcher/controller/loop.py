"""The controller's loop: one thread owns the desired state, its store, and the picture of what runs.

Each turn takes what has come (calls, reports), lets the pure parts (`state/job_lifecycle.py`, `decisions/`) decide,
commits the store, and only then hands new orders to the links. It can be killed at any instant: the store says what is
wanted, the agents' reports say what is. The loop's parts: `host_manager.py`, `task_manager.py`, `job_manager.py`, over
`desired_state.py`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from dtfctl import guard, tracing
from dtfctl._version import VERSION
from dtfctl.launcher.controller.decisions.job_orders import working_folder
from dtfctl.launcher.controller.decisions.operation_spans import OperationSpans
from dtfctl.launcher.controller.hosts.certify import OwnCertificates
from dtfctl.launcher.controller.hosts.host_count import HostCount
from dtfctl.launcher.controller.hosts.host_manager import HostManager
from dtfctl.launcher.controller.hosts.keeper import Keeper
from dtfctl.launcher.controller.hosts.links import LinkRecord
from dtfctl.launcher.controller.hosts.state_copies import CopyMaker
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.controller.state.store import Store, is_damage, read_events
from dtfctl.launcher.controller.workloads import statuses
from dtfctl.launcher.controller.workloads.job_manager import JobManager
from dtfctl.launcher.controller.workloads.task_manager import TaskManager
from dtfctl.launcher.errors import ClusterFailed, NoSpace
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.messages.reports import LogPosition
from dtfctl.launcher.model import ClusterStatus, ControllerStatus
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import Provider
from dtfctl.launcher.selectors import job_id, select
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.mailbox import Mailbox
from dtfctl.launcher.system.pulse import Pulse

log = logging.getLogger(__name__)
T = TypeVar("T")

TURN_S = 0.25
"""The loop looks at clocks (silent agents, time limits) this often; everything else wakes it."""
NO_SPACE_RETRY_S = 1.0
MOST_TOLD = 1000
NO_SPEC = "nobody has said yet what it is to be: dtfctl up FILE"


class ControllerLoop:
    """One cluster's controller, apart from its server."""

    def __init__(self, paths: ClusterPaths, created: float, provider: Provider) -> None:
        self.paths = paths
        self._created = created
        self.store = Store(paths.database)
        self._epoch = self.store.next_epoch()
        self._started = time.monotonic()
        self.address = ""
        self.pulse = Pulse()
        self._mailbox = Mailbox()
        self._problem = ""
        self._changed = threading.Condition()
        self._version = 1
        self._last_event = 0
        self._spans = OperationSpans(paths.name) if tracing.is_on() else None
        self._told = self.store.last_event()
        self.finished = False
        self._damage: ClusterFailed | None = None
        self._desired_state = DesiredState(self.store)
        self.hosts = HostManager(paths, self._desired_state, self._epoch, provider, self._mailbox, self._no_space)
        self.hosts.on_superseded = self._superseded
        self._certificates = OwnCertificates(paths, self.hosts.lifetime_s)
        self.links = LinkRecord(self.store)
        self.count = HostCount(self.store.add_event)
        self._keeper = Keeper(paths.name, TlsFiles.of(paths.certificates, "controller"), self.tell)
        self.tasks = TaskManager(paths, self._desired_state, self.hosts, self.links, self._keeper)
        self.jobs = JobManager(paths, self._desired_state, self.hosts, self._mailbox)
        self.copies = CopyMaker(paths, self._desired_state, self._epoch)
        self.hosts.ensure_all()
        count = len(self._desired_state.tasks)
        adopted = f"adopts {count} tasks" if self._epoch > 1 and count else ""
        self.store.add_event(
            "controller.started", "controller", f"epoch {self._epoch}, pid {os.getpid()} {adopted}".strip()
        )

    # ------------------------------------------------------------------ from other threads

    def call(self, function: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Run `function` in the loop's thread, in one transaction with its events, and wait for its result."""

        cause = tracing.traceparent()

        def run() -> T:
            self._desired_state.changed = True
            try:
                with self.store.transaction():
                    before = self.store.last_event() if cause else 0
                    found = function()
                if cause:
                    self._tell_operations(before, cause)
                return found
            except BaseException as error:
                self._look_for_damage(error)
                self._load()
                raise

        return self._mailbox.call(run, timeout_s)

    def _look_for_damage(self, error: BaseException) -> None:
        """End this controller if its database is damaged; the next one makes a new one of what the hosts keep."""
        if is_damage(error):
            text = f"{self.paths.database} was damaged while it was in use ({error})"
            self._damage = ClusterFailed(text, "run the command again: the hosts know what it held")
            raise self._damage from error

    def read(self, function: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Call a function that changes nothing: who only looks must not make news for others who look."""
        return self._mailbox.call(function, timeout_s, changes=False)

    @property
    def version(self) -> int:
        """The version, which grows with every change of what `status` shows."""
        return self._version

    def wait_version(self, newer_than: int, wait_s: float) -> None:
        """Wait until something has changed past `newer_than`, or `wait_s` are over."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > newer_than or self.finished, wait_s)

    def wait_event(self, after: int, wait_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._last_event > after or self.finished, wait_s)

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        """Work until it is finished. What a turn raises is rolled back, and the next one begins from what is stored."""
        guard.run(self._work, name="the controller's loop", unless=ClusterFailed)
        if self._spans is not None:
            self._tell_operations()
            self._spans.close(time.time())
        self._keeper.close()
        self._mailbox.close()

    def _work(self) -> None:
        next_tick = 0.0
        while not self.finished:
            self.pulse.beat()
            changed = self._mailbox.run_one(max(0.001, next_tick - time.monotonic()))
            changed = self._mailbox.run_all() or changed
            is_tick = time.monotonic() >= next_tick
            if is_tick:
                next_tick = time.monotonic() + TURN_S
            elif not changed:
                continue
            if self._damage is not None:
                raise self._damage
            try:
                self._turn(is_tick)
            except NoSpace as error:
                self._no_space(error)
            except Exception as error:
                self._look_for_damage(error)
                guard.note("a turn of the controller")
                self._load()
                time.sleep(guard.FIRST_PAUSE_S)

    def _turn(self, is_tick: bool) -> None:
        """Decide, commit, tell; no more work than there is news."""
        desired_state = self._desired_state
        if desired_state.spec is None or desired_state.going_down:
            self._publish()
            return
        if not is_tick and not desired_state.changed:
            return
        with self.store.transaction():
            if is_tick:
                self.hosts.judge()
                self.count.look(statuses.there(self.hosts.all), desired_state.spec)
                self.tasks.look_at_links()
                self.tasks.look_at_steps()
                if renewed := self._certificates.look(time.monotonic()):
                    self.store.add_event("controller.certified", "controller", f"new: {', '.join(renewed)}")
            if desired_state.changed:
                self.tasks.move()
            self._step_jobs()
        self.copies.look(time.monotonic(), self.hosts.links())
        if desired_state.changed:
            desired_state.changed = False
            self.tasks.send_orders()
        self._problem = ""
        self._publish()

    def _step_jobs(self) -> None:
        jobs = self._desired_state.jobs
        if all(job.is_final for job in jobs):
            return
        self.jobs.files.look(time.monotonic())
        before = list(jobs)
        self.jobs.step(self.tasks.statuses())
        if len(before) != len(jobs) or any(old is not new for old, new in zip(before, jobs, strict=False)):
            self._desired_state.changed = True

    def tell(self, kind: str, subject: str, reason: str) -> None:
        """Tell what has happened on this machine. Any thread."""

        def add() -> None:
            with self.store.transaction():
                self.store.add_event(kind, subject, reason)

        self._mailbox.post(add)

    def _tell_operations(self, before: int = 0, cause: str = "") -> None:
        """Tell of what has happened; `cause` is why everything after event `before` has."""
        spans = self._spans
        if spans is None:
            return
        while found := read_events(self.paths.database, self._told, 0.0, MOST_TOLD):
            for event in found:
                if cause and event.seq > before:
                    spans.caused([event.subject], cause)
                spans.take(event)
            self._told = found[-1].seq

    def _publish(self) -> None:
        self._tell_operations()
        newest = self.store.last_event()
        with self._changed:
            self._version += 1
            self._last_event = newest
            self._changed.notify_all()

    def _no_space(self, error: NoSpace) -> None:
        if self._problem != error.message:
            log.error("%s", error.message)
        self._problem = error.message
        self._load()
        time.sleep(NO_SPACE_RETRY_S)

    def _load(self) -> None:
        self._desired_state.load()
        self.hosts.ensure_all()

    # ------------------------------------------------------------------ what status shows (loop thread)

    def status(self) -> tuple[ClusterStatus, int, bool, bool]:
        """Gather (status, version, usable, settled); see `StatusReply`."""
        desired_state, hosts = self._desired_state, self.hosts.all
        tasks = self.tasks.statuses()
        counts = Counter(row.host for row in desired_state.tasks.values())
        status = ClusterStatus(
            name=self.paths.name,
            created=self._created,
            controller=self.controller_status(),
            hosts=tuple(
                statuses.host_status(
                    *(name, host, desired_state.host(name), counts[name], time.monotonic()),
                    self.hosts.lending.node_of(name),
                )
                for name, host in sorted(hosts.items())
            ),
            tasks=tuple(tasks),
            jobs=tuple(self.jobs.statuses([])),
            problems=tuple(
                ([self._problem] if self._problem else [])
                + self.tasks.links.problems()
                + statuses.problems(hosts, desired_state.hosts, tasks, desired_state.spec)
                + ([] if desired_state.spec is not None else [NO_SPEC])
            ),
            notes=(*desired_state.notes, *statuses.away_notes(desired_state.spec, hosts)),
            links=self.links.known(hosts.keys()),
            advice=self.tasks.steps.advice(),
            grant=self.hosts.lending.status(),
        )
        is_known = not desired_state.changed and not self.hosts.sharing.is_due
        settled = desired_state.spec is not None and is_known and statuses.is_settled(tasks, hosts, desired_state.spec)
        return status, self._version, statuses.is_usable(desired_state.spec, tasks), settled

    def current_spec(self) -> ClusterSpec | None:
        """Read what the cluster is to be like. Loop thread."""
        return self._desired_state.spec

    def job_folder(self, process: str, host: str) -> str:
        """Find where the job of `job:ID:worker/0` runs, or ran, on that host; empty for what is none. Loop thread."""
        wanted, spec = job_id(process), self._desired_state.spec
        if wanted is None or spec is None:
            return ""
        return working_folder(spec, self._desired_state.find_job(wanted.partition(":")[0]), host)

    def controller_status(self) -> ControllerStatus:
        uptime = time.monotonic() - self._started
        return ControllerStatus(os.getpid(), self.address, self._epoch, uptime, VERSION)

    # ------------------------------------------------------------------ logs (loop thread)

    def log_positions(self, selector: str) -> list[tuple[str, LogPosition]]:
        """List (host, start) of every process that `selector` names."""
        wanted = job_id(selector)
        if wanted is not None:
            job = self._desired_state.find_job(wanted)
            where = {row.name: row.host for row in self._desired_state.tasks.values()}
            now = job if job.is_final else job.noting(where)
            return [
                (host, LogPosition(f"job:{job.key}:{placed.name}"))
                for placed in job.processes
                for host in now.ran_on.get(placed.name, ())
            ]
        rows = [self._desired_state.tasks[task.name] for task in select(selector, self.tasks.statuses())]
        return [(host, LogPosition(row.name)) for row in rows for host in (*row.ran_on, row.host)]

    def is_over(self, selector: str) -> bool:
        """Tell whether `selector` names a job that has ended, so that nothing more will be logged."""
        wanted = job_id(selector)
        return wanted is not None and self.jobs.is_final(wanted)

    def _superseded(self, text: str) -> None:
        """End for good: on a host that was taken for lost this controller went on, and the cluster has another one.

        On the operator's machine the next command would start it again.
        """
        if self.paths.login.exists():
            log.error("%s: this controller ends", text)
            self.finish()

    # ------------------------------------------------------------------ down

    @property
    def is_going_down(self) -> bool:
        return self._desired_state.going_down

    def begin_down(self) -> None:
        """Start nothing from now on. Any thread."""

        def begin() -> None:
            self._desired_state.going_down = True
            self.hosts.start_none()

        self.call(begin)
        try:
            self.call(self._desired_state.store_going_down)
        except NoSpace as error:  # a full disk is a reason to go down, not one to stay
            log.warning("going down is not noted: %s", error.message)

    def finish(self) -> None:
        """End the loop."""
        self.finished = True
        self._mailbox.post(lambda: None)
        with self._changed:
            self._changed.notify_all()
