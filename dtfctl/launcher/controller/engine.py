"""The controller's loop: one thread owns the desired state, its store, and the picture of what runs.

Each turn takes what has come (calls, reports), lets the pure parts (`jobs.py`, `plan.py`) decide, commits the store,
and only then hands new orders to the links. It can be killed at any instant: the store says what is wanted, the
agents' reports say what is.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from dtfctl._version import VERSION
from dtfctl.health.monitor import Monitor
from dtfctl.launcher import codec
from dtfctl.launcher.agent.contract import ClientReport, LogChunk, LogPosition, Report
from dtfctl.launcher.certificates import TlsFiles, ensure_certificate
from dtfctl.launcher.controller import jobs, plan, view
from dtfctl.launcher.controller.changes import describe_changes, structure_of
from dtfctl.launcher.controller.link import AgentLink
from dtfctl.launcher.controller.store import Store, TaskRow
from dtfctl.launcher.controller.view import Host
from dtfctl.launcher.errors import Conflict, LauncherError, NoSpace, NoSuchJob, NoSuchTask, ScriptError
from dtfctl.launcher.files import private_folder, write_whole
from dtfctl.launcher.loop import Mailbox
from dtfctl.launcher.model import (
    ClusterStatus,
    ControllerStatus,
    JobRequest,
    JobStatus,
    TaskStatus,
)
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers.base import AgentEndpoint, Provider
from dtfctl.launcher.selectors import select
from dtfctl.launcher.spec.model import ClusterSpec

log = logging.getLogger(__name__)
T = TypeVar("T")

TURN_S = 0.25
"""The loop looks at clocks (silent agents, time limits) this often; everything else wakes it."""
NO_SPACE_RETRY_S = 1.0


class Engine:
    """One cluster's controller, apart from its server."""

    def __init__(self, paths: ClusterPaths, created: float, provider: Provider) -> None:
        self.paths = paths
        self._created = created
        self._provider = provider
        self.store = Store(paths.database)
        self._epoch = self.store.next_epoch()
        self._tls = TlsFiles.of(paths.certificates, "controller")
        self._started = time.monotonic()
        self.address = ""
        self._mailbox = Mailbox()
        self._hosts: dict[str, Host] = {}
        self._problem = ""
        self._revision = 0
        self._changed = threading.Condition()
        self._version = 1
        self._last_event = 0
        self.finished = False
        self._going_down = False
        self._spec: ClusterSpec | None = None
        self._tasks: list[TaskRow] = []
        self._jobs: list[jobs.JobRecord] = []
        self._task_command: tuple[str, ...] = ()
        self._load()
        adopted = f"adopts {len(self._tasks)} tasks" if self._epoch > 1 and self._tasks else ""
        self.store.add_event(
            "controller.started", "controller", f"epoch {self._epoch}, pid {os.getpid()} {adopted}".strip()
        )

    # ------------------------------------------------------------------ from other threads

    def call(self, function: Callable[[], T], timeout_s: float = 30.0) -> T:
        """Run `function` in the loop's thread, in one transaction with its events, and wait for its result."""

        def run() -> T:
            try:
                with self.store.transaction():
                    return function()
            except BaseException:
                self._load()
                raise

        return self._mailbox.call(run, timeout_s)

    @property
    def version(self) -> int:
        """Grows with every change of what `status` shows."""
        return self._version

    def wait_version(self, newer_than: int, wait_s: float) -> None:
        """Until something has changed past `newer_than`, or `wait_s` are over."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > newer_than or self.finished, wait_s)

    def wait_event(self, after: int, wait_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._last_event > after or self.finished, wait_s)

    # ------------------------------------------------------------------ the loop

    def run(self) -> None:
        next_turn = 0.0
        while not self.finished:
            self._mailbox.run_one(max(0.001, next_turn - time.monotonic()))
            self._mailbox.run_all()
            if time.monotonic() >= next_turn:
                next_turn = time.monotonic() + TURN_S
            try:
                self._turn()
            except NoSpace as error:
                self._no_space(error)
        self._mailbox.close()

    def _turn(self) -> None:
        """Decide, commit, tell."""
        if self._spec is None or self._going_down:
            self._publish()
            return
        with self.store.transaction():
            self._judge_hosts()
            self._step_jobs()
        self._send_orders()
        self._problem = ""
        self._publish()

    def _publish(self) -> None:
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
        """Memory is what the store says: at the start, and after a change that could not be stored."""
        self._spec = self.store.spec()
        self._tasks = self.store.tasks()
        self._jobs = self.store.jobs()
        command = self.store.get("task_command")
        self._task_command = codec.decode(tuple[str, ...], command) if command else ()
        if self._spec is not None:
            for host in sorted({row.host for row in self._tasks}):
                self._ensure_host(host)

    # ------------------------------------------------------------------ hosts

    def _ensure_host(self, name: str) -> None:
        if name in self._hosts or self._spec is None:
            return
        boot, _, number = (self.store.get(f"seen:{name}") or " 0").partition(" ")
        link = AgentLink(
            name,
            self.paths.name,
            self._epoch,
            self._provider,
            self._tls,
            (boot, int(number)),
            on_report=lambda host, report: self._mailbox.post(lambda: self._on_report(host, report)),
            on_lost=lambda host, why: self._mailbox.post(lambda: self._on_lost(host, why)),
            on_endpoint=lambda end: self._mailbox.post(lambda: self._on_endpoint(end)),
        )
        self._hosts[name] = Host(link, Monitor(plan.health_limits(self._spec)))
        link.start()

    def _on_endpoint(self, endpoint: AgentEndpoint) -> None:
        host = self._hosts[endpoint.host]
        host.endpoint = endpoint
        host.last_error = ""

    def _on_report(self, name: str, report: Report) -> None:
        host = self._hosts[name]
        host.monitor.beat(time.monotonic())
        host.report = report
        host.last_error = report.problem
        try:
            with self.store.transaction():
                if host.state != "up":
                    host.state = "up"
                    self.store.add_event("host.up", f"host:{name}", f"agent pid {report.pid}")
                for item in report.happenings:
                    self.store.add_event(item.kind, item.subject, item.reason, item.incarnation, item.time)
                if report.happenings:
                    self.store.put(f"seen:{name}", f"{report.boot} {report.happenings[-1].number}")
                self._note_incarnations(report)
        except NoSpace as error:
            self._no_space(error)

    def _note_incarnations(self, report: Report) -> None:
        seen = {task.name: task.incarnation for task in report.tasks}
        for at, row in enumerate(self._tasks):
            if seen.get(row.name, 0) > row.incarnation:
                self._tasks[at] = replace(row, incarnation=seen[row.name])
                self.store.put_task(self._tasks[at])

    def _on_lost(self, name: str, why: str) -> None:
        if self._going_down:
            return
        host = self._hosts[name]
        host.last_error = why
        if host.state == "up":
            host.state = "suspect"
            with self.store.transaction():
                self.store.add_event("host.suspect", f"host:{name}", why)

    def _judge_hosts(self) -> None:
        now = time.monotonic()
        for name, host in self._hosts.items():
            verdict = host.monitor.tick(now)
            if verdict == "down" and host.state in ("up", "suspect"):
                host.state = "down"
                silence = host.monitor.silence_s(now)
                self.store.add_event("host.down", f"host:{name}", f"its agent is silent for {silence:.1f} s")
                threading.Thread(target=host.link.restart_agent, daemon=True).start()
            elif verdict == "suspect" and host.state == "up":
                host.state = "suspect"
                self.store.add_event("host.suspect", f"host:{name}", "its agent is silent")
            elif verdict == "healthy" and host.state == "suspect" and not host.last_error:
                host.state = "up"
                self.store.add_event("host.up", f"host:{name}", "its agent reports again")

    # ------------------------------------------------------------------ jobs and orders

    def _step_jobs(self) -> None:
        now = time.time()
        tasks = self.task_statuses()
        by_name = {task.name: task for task in tasks}
        seen = jobs.JobView(self._client_reports(), {row.name: row.host for row in self._tasks})
        for at, job in enumerate(self._jobs):
            if not job.is_final:
                self._set_job(at, jobs.step(job, seen, by_name, now))
        chosen = jobs.next_to_start(self._jobs)
        if chosen is not None:
            at = self._jobs.index(chosen)
            self._set_job(at, jobs.start(chosen, tasks, now))

    def _set_job(self, at: int, job: jobs.JobRecord) -> None:
        before = self._jobs[at]
        if job == before:
            return
        self._jobs[at] = job
        if replace(job, clients=()) == replace(before, clients=()):
            return  # only its processes' numbers moved: nothing worth a write
        self.store.put_job(job)
        if job.state != before.state:
            reason = job.reason if job.exit_code is None else f"exit code {job.exit_code} {job.reason}".strip()
            self.store.add_event(f"job.{job.state}", f"job:{job.id}", reason)

    def _client_reports(self) -> dict[str, dict[str, ClientReport]]:
        found: dict[str, dict[str, ClientReport]] = {}
        for host in self._hosts.values():
            for report in host.report.clients if host.report else ():
                found.setdefault(report.job_id, {})[report.name] = report
        return found

    def _desired(self) -> plan.Desired:
        assert self._spec is not None
        return plan.Desired(
            cluster=self.paths.name,
            spec=self._spec,
            tasks=tuple(self._tasks),
            jobs=tuple(self._jobs),
            task_command=self._task_command,
            tls_folder=self._provider.tls_folder,
        )

    def _send_orders(self) -> None:
        reports = {name: host.report for name, host in self._hosts.items() if host.report is not None}
        for name, orders in plan.reconcile(self._desired(), plan.Observed(reports)).items():
            self._ensure_host(name)
            host = self._hosts[name]
            if host.orders is not None and replace(orders, revision=host.orders.revision) == host.orders:
                continue
            self._revision += 1
            host.orders = replace(orders, revision=self._revision)
            host.link.set_orders(host.orders)

    # ------------------------------------------------------------------ commands (loop thread, in a transaction)

    def apply_spec(self, spec: ClusterSpec, task_command: tuple[str, ...], dry_run: bool) -> tuple[list[str], int]:
        """Take over a spec: (what changes, newest event before)."""
        if self._going_down:
            raise Conflict(f"cluster {self.paths.name} is going down")
        placed = plan.place(spec)
        changes = describe_changes(self._spec, spec, placed)
        newest = self.store.last_event()
        if self._spec is not None and structure_of(self._spec) != structure_of(spec):
            if dry_run:
                return changes, newest
            raise Conflict(
                f"cluster {self.paths.name} runs with other tasks or settings: {'; '.join(changes)}",
                f"take it down first: dtfctl down -c {self.paths.name}",
            )
        if dry_run or not changes:
            return changes, newest
        if self._spec is None:
            for name in placed:
                ensure_certificate(self.paths.certificates, self.paths.name, "task", name)
            rows = [TaskRow(name, host) for name, host in placed.items()]
            self.store.put_tasks(rows)
            self.store.put("task_command", codec.encode(task_command))
        self.store.set_spec(spec)
        self.store.add_event("cluster.applied", "cluster", "; ".join(changes))
        self._load()
        return changes, newest

    def submit(self, request: JobRequest, source: bytes, sha256: str) -> tuple[str, bool]:
        """Store the script and queue the job: (id, whether this submission was known already)."""
        if self._spec is None:
            raise Conflict("the cluster has no spec yet", "wait for `dtfctl up` to finish")
        if self._going_down:
            raise Conflict(f"cluster {self.paths.name} is going down")
        for job in self._jobs:
            if job.request.submission_id == request.submission_id:
                return job.id, True
        if hashlib.sha256(source).hexdigest() != sha256:
            raise ScriptError(f"{request.script} was damaged on its way", "submit it again")
        resumed = self._find_job(request.resume) if request.resume else None
        job_id = self._new_job_id(request)
        folder = private_folder(self.paths.job(job_id))
        script = private_folder(folder / "code") / Path(request.script).name
        write_whole(script, source, 0o700)
        if resumed is not None:
            checkpoint = Path(resumed.checkpoint_dir)
        elif self._spec.recovery.checkpoint:
            checkpoint = Path(self._spec.recovery.checkpoint).expanduser() / job_id
        else:
            checkpoint = folder / "checkpoint"
        private_folder(checkpoint)
        record = jobs.JobRecord(
            id=job_id,
            request=request,
            script=str(script),
            folder=str(folder),
            checkpoint_dir=str(checkpoint),
            submitted=time.time(),
        )
        self._jobs.append(self.store.add_job(record))
        self.store.add_event("job.queued", f"job:{job_id}", Path(request.script).name)
        return job_id, False

    def _new_job_id(self, request: JobRequest) -> str:
        stem = request.name or Path(request.script).stem
        base = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40] or "job"
        taken = {job.id for job in self._jobs}
        number = 1
        # Checkpoints and logs of an earlier cluster of this name may be there still; a job does not mix with them.
        while (job_id := f"{base}-{number}") in taken or any(
            folder.exists() for folder in (self.paths.job(job_id), self.paths.logs / "jobs" / job_id)
        ):
            number += 1
        return job_id

    def cancel(self, ids: list[str], grace_s: float) -> list[JobStatus]:
        for job_id in ids:
            at = self._jobs.index(self._find_job(job_id))
            job = jobs.cancel(self._jobs[at], grace_s)
            if job is not self._jobs[at]:
                self._jobs[at] = job
                self.store.put_job(job)
                self.store.add_event("job.cancelling", f"job:{job_id}", "on request")
        return self.job_statuses(ids)

    def desire(self, selector: str, verb: str, grace_s: float) -> list[str]:
        """`restart`, `stop` or `start` tasks: their names."""
        chosen = {task.name for task in select(selector, self.task_statuses())}
        for at, row in enumerate(self._tasks):
            if row.name not in chosen:
                continue
            if verb == "restart":
                row = replace(row, run=True, restart_request=row.restart_request + 1, grace_s=grace_s)
            else:
                row = replace(row, run=verb == "start", grace_s=grace_s)
            self._tasks[at] = row
            self.store.put_task(row)
            self.store.add_event(f"task.{verb}-requested", row.name, "by the user")
        return [row.name for row in self._tasks if row.name in chosen]

    def _find_job(self, job_id: str) -> jobs.JobRecord:
        for job in self._jobs:
            if job.id == job_id:
                return job
        known = ", ".join(job.id for job in self._jobs[-5:])
        raise NoSuchJob(f"there is no job {job_id!r}", f"newest jobs: {known}" if known else "no job was submitted yet")

    # ------------------------------------------------------------------ what status shows (loop thread)

    def status(self) -> tuple[ClusterStatus, int, bool, bool]:
        """(status, version, usable, settled); see ClusterStatus in controller.proto."""
        tasks = self.task_statuses()
        status = ClusterStatus(
            name=self.paths.name,
            created=self._created,
            controller=self.controller_status(),
            hosts=tuple(
                view.host_status(name, host, sum(row.host == name for row in self._tasks))
                for name, host in sorted(self._hosts.items())
            ),
            tasks=tuple(tasks),
            jobs=tuple(self.job_statuses([])),
            problems=tuple(([self._problem] if self._problem else []) + view.problems(self._hosts, tasks)),
        )
        settled = self._spec is not None and all(task.state in view.SETTLED for task in tasks)
        return status, self._version, view.is_usable(self._spec, tasks), settled

    def controller_status(self) -> ControllerStatus:
        uptime = time.monotonic() - self._started
        return ControllerStatus(os.getpid(), self.address, self._epoch, uptime, VERSION)

    def task_statuses(self) -> list[TaskStatus]:
        return view.task_statuses(self._tasks, self._hosts)

    def job_statuses(self, ids: list[str]) -> list[JobStatus]:
        """Those jobs, or all, the newest first."""
        wanted = [self._find_job(job_id) for job_id in ids] if ids else list(reversed(self._jobs))
        return view.job_statuses(wanted, self._jobs)

    # ------------------------------------------------------------------ logs (any thread)

    def log_positions(self, selector: str) -> list[tuple[str, LogPosition]]:
        """(host, start) of every process that `selector` names. Loop thread."""
        if selector.startswith("job:"):
            job = self._find_job(selector.removeprefix("job:"))
            where = {row.name: row.host for row in self._tasks}
            return [(where[name], LogPosition(f"job:{job.id}:{name}")) for name in job.tasks if name in where]
        return [(task.host, LogPosition(task.name)) for task in select(selector, self.task_statuses())]

    def job_is_final(self, selector: str) -> bool:
        return selector.startswith("job:") and self._find_job(selector.removeprefix("job:")).is_final

    def read_logs(
        self, host: str, positions: list[LogPosition], *, wait_s: float, max_bytes: int, tail: int
    ) -> list[LogChunk]:
        """Of one host; any thread."""
        known = self._hosts.get(host)
        if known is None:
            raise NoSuchTask(f"there is no host {host}")
        return known.link.read_logs(positions, wait_s=wait_s, max_bytes=max_bytes, tail=tail)

    # ------------------------------------------------------------------ down

    def begin_down(self) -> None:
        """From now on nothing is started. Loop thread."""
        self._going_down = True
        self.store.add_event("cluster.down-requested", "cluster", "by the user")

    def stop_hosts(self, grace_s: float) -> list[str]:
        """Stop every host's processes and agent; what did not work. Any thread, after `begin_down`."""
        hosts = dict(self._hosts)
        if not hosts:
            return []
        with ThreadPoolExecutor(min(64, len(hosts))) as pool:
            outcomes = list(pool.map(lambda item: self._stop_host(item[0], item[1], grace_s), hosts.items()))
        return [problem for problem in outcomes if problem]

    def _stop_host(self, name: str, host: Host, grace_s: float) -> str:
        try:
            host.link.shutdown_agent(grace_s)
        except LauncherError as error:
            return f"host {name}: {error.message}"
        finally:
            host.link.close()
        self._provider.clean(name)
        return ""

    def finish(self) -> None:
        """End the loop."""
        self.finished = True
        self._mailbox.post(lambda: None)
        with self._changed:
            self._changed.notify_all()
