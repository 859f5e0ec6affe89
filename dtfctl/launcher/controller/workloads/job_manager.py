"""Take submitted jobs in, cancel them, and take one step of each a turn; what a step is, `job_lifecycle.py` decides."""

from __future__ import annotations

import hashlib
import random
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dtfctl.launcher.controller.decisions import checkpoint_folders, job_queue, reconcile
from dtfctl.launcher.controller.decisions.gpu_room import GpuRoom
from dtfctl.launcher.controller.hosts.host_manager import HostManager
from dtfctl.launcher.controller.state import job_lifecycle, ledger
from dtfctl.launcher.controller.state.desired_state import DesiredState
from dtfctl.launcher.controller.workloads import statuses
from dtfctl.launcher.controller.workloads.job_files import JobFiles
from dtfctl.launcher.errors import Conflict, ScriptError, UsageError
from dtfctl.launcher.messages.orders import JobNeeds, key_of
from dtfctl.launcher.messages.reports import ClientReport
from dtfctl.launcher.model import JobRequest, JobStatus, TaskStatus
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.spec import elastic
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.launcher.system.mailbox import Mailbox
from dtfctl.launcher.system.procfs import boot_id
from dtfctl.launcher.transfer.blobs import Blobs
from dtfctl.values import replace as replace_value

BLOBS_BYTES = 8 * 2**30
"""The most bytes of files of jobs that have ended."""
JOB_ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


class JobManager:
    """The cluster's jobs. Owned by the controller's loop; every method runs within one of its transactions."""

    def __init__(self, paths: ClusterPaths, desired_state: DesiredState, hosts: HostManager, mailbox: Mailbox) -> None:
        self._paths = paths
        self._desired_state = desired_state
        self._hosts = hosts
        self.blobs = Blobs(paths.blobs)
        """What was sent for jobs; any thread."""
        self.files = JobFiles(desired_state, mailbox, hosts.all, self.blobs)

    # ------------------------------------------------------------------ a turn

    def step(self, tasks: Sequence[TaskStatus]) -> None:
        """Let every job see what has happened to its processes, then start the next one."""
        now, spec = time.time(), self._desired_state.spec
        if spec is None or all(job.is_final for job in self._desired_state.jobs):
            return
        records = self._desired_state.jobs
        by_name = {task.name: task for task in tasks}
        seen = self._view(spec)
        for at, job in enumerate(records):
            if not job.is_final:
                job = self._follow_spec(self._with_files(job, now), spec)
                self._set(at, job_lifecycle.step(job.noting(seen.hosts), seen, by_name, now))
        minimum = elastic.least_tasks(spec)
        of_group = {job: group.gpus for job, group in spec.tasks.items()}
        gpus = GpuRoom(tasks, of_group, self._hosts.gpus())
        for at, job in enumerate(job_queue.schedule(records, tasks, minimum, now, self._held_back(), gpus)):
            self._set(at, job)

    def _held_back(self) -> dict[str, str]:
        """List the jobs that must not begin now, and why."""
        waiting = [job for job in self._desired_state.jobs if job.state == "queued"]
        unshared = self._hosts.sharing.problem if waiting else ""
        if unshared:
            return {job.id: unshared for job in waiting}
        return {job.id: "its files are fetched from hosts" for job in waiting if self.files.is_away(job.needs.files)}

    def _view(self, spec: ClusterSpec) -> job_lifecycle.JobView:
        """Gather what hosts say about the processes that belong to them; what one says that lost a task is old."""
        places = {row.name: row.host for row in self._desired_state.tasks.values()}
        clock = job_lifecycle.Clock(boot_id(), time.clock_gettime(time.CLOCK_BOOTTIME))
        every = {
            (host, client.job_id, client.name): client
            for host, report in self._hosts.reports().items()
            for client in report.clients
        }
        found: dict[str, dict[str, ClientReport]] = {}
        for job in self._desired_state.jobs:
            for placed in job.processes if job.is_active else ():
                report = every.get((places.get(placed.task, ""), job.id, placed.name))
                if report is not None:
                    found.setdefault(job.id, {})[placed.name] = report
        return job_lifecycle.JobView(found, places, reconcile.restart_policy(spec), random.random(), clock)

    def _set(self, at: int, job: job_lifecycle.JobRecord) -> None:
        before = self._desired_state.jobs[at]
        if job == before:
            return
        self._desired_state.jobs[at] = job
        if replace(job, clients=()) == replace(before, clients=()):
            return  # only its processes' numbers moved: nothing worth a write
        self._desired_state.store.put_job(job)
        subject = f"job:{job.id}"
        if job.generation != before.generation:
            self._desired_state.store.add_event("job.starts-again", subject, job.why_again, job.generation)
        if job.state != before.state:
            reason = job.reason if job.exit_code is None else f"exit code {job.exit_code} {job.reason}".strip()
            if job.state == "running" and before.state == "queued":
                reason = f"on {', '.join(placed.task for placed in job.placed)}"
            self._desired_state.store.add_event(f"job.{job.state}", subject, reason, job.generation)

    # ------------------------------------------------------------------ commands

    def submit(self, request: JobRequest, source: bytes, sha256: str, needs: JobNeeds) -> tuple[str, bool]:
        """Store the script and queue the job: (id, whether this submission was known already)."""
        desired_state = self._desired_state
        if desired_state.spec is None:
            raise Conflict("the cluster has no spec yet", "wait for `dtfctl up` to finish")
        if desired_state.going_down:
            raise Conflict(f"cluster {self._paths.name} is going down")
        for job in desired_state.jobs:
            if job.request.submission_id == request.submission_id:
                return job.id, True
            if job.id == request.id:
                if (job.script_sha256, tuple(job.request.args)) != (sha256, tuple(request.args)):
                    raise Conflict(f"{job.id} is another script, or has other arguments", "choose another --id")
                if job.needs.tree_sha256 != needs.tree_sha256 or job.needs.packages.lines != needs.packages.lines:
                    raise Conflict(f"{job.id} has another working folder, or other packages", "choose another --id")
                return job.id, True
        if hashlib.sha256(source).hexdigest() != sha256:
            raise ScriptError(f"{request.script} was damaged on its way", "submit it again")
        for name in needs.files:
            self.blobs.path(name)
        living = {name for job in desired_state.jobs if not job.is_final for name in job.needs.files}
        self.blobs.prune(living | set(needs.files), BLOBS_BYTES)
        tasks = [TaskStatus(row.job, row.index, "pending", host=row.host) for row in desired_state.tasks.values()]
        job_queue.check(request, tasks)
        request = job_queue.elastic_request(request, desired_state.spec, tasks)
        request = replace(request, success=request.success or desired_state.spec.jobs.success)
        past = ledger.read(self._paths.ledger)
        resumed = self._resumed(request.resume, past) if request.resume else None
        job_id, uid = self._new_id(request, past), secrets.token_hex(4)
        key = key_of(job_id, uid)
        folder = private_folder(self._paths.job(key))
        script = private_folder(folder / "code") / Path(request.script).name
        write_whole(script, source, 0o700)
        if resumed is not None:
            checkpoint = Path(resumed)
        else:
            checkpoint = self._checkpoints_of(key, desired_state.spec)
        if desired_state.spec.is_local:
            checkpoint = private_folder(checkpoint.expanduser())
        record = job_lifecycle.JobRecord(
            id=job_id,
            uid=uid,
            request=request,
            script=str(script),
            script_sha256=sha256,
            needs=needs,
            folder=str(folder),
            checkpoint_dir=str(checkpoint),
            submitted=time.time(),
        )
        # First for good: what comes of the job after that may be lost, but its id is never another one's.
        ledger.write(self._paths.ledger, past.with_job(job_id, ledger.PastJob(uid, str(checkpoint))))
        desired_state.jobs.append(desired_state.store.add_job(record))
        again = f", goes on from the checkpoints of {request.resume}" if request.resume else ""
        desired_state.store.add_event("job.queued", f"job:{job_id}", f"{Path(request.script).name}{again}")
        return job_id, False

    def _checkpoints_of(self, key: str, spec: ClusterSpec) -> Path:
        if spec.checkpoints.path:
            return Path(spec.checkpoints.path) / key
        if spec.is_local:
            return self._paths.job(key) / "checkpoint"
        return Path(spec.home or "~/.dtfctl") / "clusters" / self._paths.name / "jobs" / key / "checkpoint"

    def _with_files(self, job: job_lifecycle.JobRecord, now: float) -> job_lifecycle.JobRecord:
        """Fail a job whose files were lost with the controller's machine and are on no host either: it never begins."""
        if job.placed or not self.files.are_lost(job.needs.files):
            return job
        reason = "its files were lost with those of the controller, and no host has them; submit it again"
        return replace(job, state="failed", exit_code=1, reason=reason, ended=now)

    def _follow_spec(self, job: job_lifecycle.JobRecord, spec: ClusterSpec) -> job_lifecycle.JobRecord:
        """Make a job that has not begun write where the spec says now, not where it said when it was submitted."""
        folder = str(self._checkpoints_of(job.key, spec))
        if job.placed or job.request.resume or spec.is_local or job.checkpoint_dir == folder:
            return job
        past = ledger.read(self._paths.ledger)
        ledger.write(self._paths.ledger, past.with_job(job.id, ledger.PastJob(job.uid, folder)))
        return replace(job, checkpoint_dir=folder)

    def _resumed(self, job_id: str, past: ledger.Ledger) -> str:
        """Find the checkpoint folder of a job of this cluster, or of an earlier one of its name.

        Raises:
            NoSuchTask: there was none. Conflict: it still runs.
        """
        running = next((job for job in self._desired_state.jobs if job.id == job_id and not job.is_final), None)
        if running is not None:
            raise Conflict(
                f"{job_id} has not ended, and two jobs do not write the same checkpoints",
                f"wait for it, or end it: dtfctl cancel {job_id}",
            )
        known = past.jobs.get(job_id)
        return self._desired_state.find_job(job_id).checkpoint_dir if known is None else known.checkpoint_dir

    def _new_id(self, request: JobRequest, past: ledger.Ledger) -> str:
        """Choose an id that no job of this cluster has, nor any of an earlier one of its name had."""
        if request.id is not None:
            if not JOB_ID.fullmatch(request.id):
                raise UsageError(
                    f"`{request.id}` cannot be a job's id",
                    "use up to 63 lower-case letters, digits and `-`, a letter or digit first and last",
                )
            if request.id in past.jobs:
                raise Conflict(
                    f"an earlier cluster {self._paths.name} had a job {request.id}",
                    f"choose another --id; to go on from its checkpoints: --resume {request.id}",
                )
            return request.id
        stem = request.name or Path(request.script).stem
        base = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40] or "job"
        return f"{base}-{past.next_number(base, {job.id for job in self._desired_state.jobs})}"

    def cancel(self, ids: Sequence[str], grace_s: float) -> list[str]:
        """End these jobs, or (none named) all that have not ended: their ids."""
        desired_state = self._desired_state
        chosen = list(ids) or [job.id for job in desired_state.jobs if not job.is_final]
        for job_id in chosen:
            at = desired_state.jobs.index(desired_state.find_job(job_id))
            job = job_lifecycle.cancel(desired_state.jobs[at], grace_s)
            if job is not desired_state.jobs[at]:
                desired_state.jobs[at] = job
                desired_state.store.put_job(job)
                desired_state.store.add_event("job.cancelling", f"job:{job_id}", "on request")
        return chosen

    def statuses(self, ids: Sequence[str]) -> list[JobStatus]:
        """Make the statuses of those jobs, or of all, the newest first."""
        every = self._desired_state.jobs
        wanted = [self._desired_state.find_job(job_id) for job_id in ids] if ids else list(reversed(every))
        spec, reports, lost = self._desired_state.spec, self._hosts.reports(), self._hosts.lost()
        copies = 0 if spec is None else min(spec.checkpoints.copies, len(spec.hosts))
        found = []
        for job, status in zip(wanted, statuses.job_statuses(wanted, every), strict=True):
            name, hosts = checkpoint_folders.acknowledged(job, copies, reports, lost)
            found.append(replace_value(status, checkpoint=name, checkpoint_hosts=hosts) if name else status)
        return found

    def is_final(self, job_id: str) -> bool:
        return self._desired_state.find_job(job_id).is_final
