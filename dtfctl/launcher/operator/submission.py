"""Jobs from the user's side: check and ship a script, follow what it does."""

from __future__ import annotations

import ast
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from dtfctl.launcher.errors import DeadlineExpired, ScriptError, UsageError
from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import CancelRequest, JobsRequest, SubmitRequest
from dtfctl.launcher.messages.orders import JobNeeds
from dtfctl.launcher.model import (
    JobChanged,
    JobEnded,
    JobItem,
    JobNote,
    JobOutput,
    JobProgress,
    JobRequest,
    JobStatus,
    Progress,
)
from dtfctl.launcher.operator import controller_client, history, output
from dtfctl.launcher.operator.controller_client import Connection

BACK_S = 12.0
"""How long the end of a job waits for its last lines from a host that does not answer: an agent that was killed is back
in some seconds, of a machine with much other work."""
FOLLOW_LOGS_S = 0.3
NOTES_S = 0.5
ENDING_S = 20.0
"""How long jobs that were killed may take, after their grace, to be seen as ended."""
CLOCKS_S = 86400.0
"""Clocks of hosts differ by less."""
MOST_CPUS = 4096
LEAST_MEMORY = 8 * 2**20
LARGEST_SCRIPT = 32 * 2**20


def submit(connection: Connection, request: JobRequest, tell: Callable[[str], None]) -> str:
    """See `Cluster.submit`."""
    _check_limits(request)
    path = Path(request.script).expanduser().absolute()
    source = read_script(path, python=request.framework != "command")
    needs = JobNeeds()
    asked = request.working_dir is not None or request.requirements or request.extras
    if asked or (request.framework != "command" and b"# /// script" in source):
        from dtfctl.launcher.operator import packing

        needs = packing.pack(connection, request, path, source, tell)
    return connection.call(controller_calls.SUBMIT, message_of(request, path, source, needs)).job_id


def _check_limits(request: JobRequest) -> None:
    """Raise UsageError for limits with which nothing can run."""
    if request.cpus is not None and not 0.01 <= request.cpus <= MOST_CPUS:
        raise UsageError(
            f"{request.cpus:g} processors cannot be a limit", f"give 0.01 to {MOST_CPUS}, such as 0.5 or 2"
        )
    if request.memory is not None and request.memory != 0 and request.memory < LEAST_MEMORY:
        raise UsageError(
            f"{request.memory} bytes of memory are too few", f"no Python starts below {LEAST_MEMORY >> 20}MiB"
        )
    if request.gpus is not None and request.gpus < 0:
        raise UsageError(f"{request.gpus} GPUs cannot be had", "give 0 or more")


def message_of(request: JobRequest, path: Path, source: bytes, needs: JobNeeds) -> SubmitRequest:
    """Make the message for `request`: the script's bytes, absolute paths, and an id for the submission."""
    env = dict(request.env)
    if request.framework != "command" and not needs.program:
        # The copy that runs lies elsewhere; the modules beside the original must still be found.
        inherited = env.get("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path.parent), inherited]))
    complete = replace(
        request,
        script=str(path),
        env=env,
        submission_id=request.submission_id or uuid.uuid4().hex,
        cwd=request.cwd or str(Path.cwd()),
    )
    return SubmitRequest(
        request=complete,
        source=source,
        sha256=hashlib.sha256(source).hexdigest(),
        needs=needs,
    )


def read_jobs(connection: Connection, ids: list[str]) -> list[JobStatus]:
    """Read those jobs, or all of them, the newest first."""
    reply = connection.call(controller_calls.JOBS, JobsRequest(tuple(ids)), timeout_s=controller_client.FOLLOW_S)
    return list(reply.jobs)


def cancel(connection: Connection, job_ids: Sequence[str], grace_s: float) -> list[JobStatus]:
    """Stop jobs and wait until they have ended; none named: all. See `Cluster.cancel`."""
    reply = connection.call(controller_calls.CANCEL, CancelRequest(tuple(job_ids), grace_s))
    ids = tuple(job.id for job in reply.jobs)
    deadline = time.monotonic() + grace_s + ENDING_S
    while True:
        found = list(reply.jobs)
        if all(job.is_final for job in found):
            return found
        if time.monotonic() > deadline:
            alive = ", ".join(job.id for job in found if not job.is_final)
            raise DeadlineExpired(f"still ending: {alive}", f"look with: dtfctl jobs -c {connection.paths.name}")
        reply = connection.call(controller_calls.JOBS, JobsRequest(ids=ids, newer_than=reply.version, wait_s=1.0))


def follow_job(connection: Connection, job_id: str) -> Iterator[JobItem]:
    """See `Cluster.follow_job`."""
    reader = output.LogReader(connection, f"job:{job_id}")
    seen: dict[str, Progress] = {}
    seen_state = "queued", "", 0
    away_since: float | None = None
    notes = _Notes(connection, job_id)
    while True:
        # The state is read before the output: what a final job wrote is then complete.
        status = read_jobs(connection, [job_id])[0]
        news = status.state, status.reason if status.state in ("queued", "running") else "", status.restarts
        if news != seen_state and not status.is_final:
            yield JobChanged(status)
        seen_state = news
        yield from notes.read(status)
        batch = reader.read(0.0 if status.is_final else FOLLOW_LOGS_S)
        for line in batch.lines:
            yield JobOutput(line)
        for number, client in enumerate(status.clients):
            progress, before = client.progress, seen.get(client.name)
            if progress is not None and (before is None or before.time != progress.time):
                if before is not None and progress.step < before.step:
                    yield from notes.read(status, now=True)  # they say why
                seen[client.name] = progress
                yield JobProgress(client.name, progress, chief=number == 0)
        # A host that is gone for good must not keep the answer back; its lines are then missing, which is said.
        if not (status.is_final and batch.unreachable):
            away_since = None
        elif away_since is None:
            away_since = time.monotonic()
        if status.is_final and (batch.final or (away_since and time.monotonic() - away_since > BACK_S)):
            yield JobEnded(status, lost_output=() if batch.final else batch.unreachable)
            return
        if not status.clients:
            connection.call(controller_calls.JOBS, JobsRequest(newer_than=reader.version, wait_s=0.2))


class _Notes:
    """What the job's processes have noted, as its events tell; they are looked for now and then."""

    def __init__(self, connection: Connection, job_id: str) -> None:
        self._connection = connection
        self._subject = f"job:{job_id}"
        self._after = 0
        self._looked = float("-inf")

    def read(self, status: JobStatus, now: bool = False) -> Iterator[JobNote]:
        """Yield the notes since the last time."""
        if time.monotonic() - self._looked < NOTES_S and not (now or status.is_final):
            return
        self._looked = time.monotonic()
        found, self._after = history.read_events(self._connection, self._after, status.submitted - CLOCKS_S, 0.0)
        for event in found:
            if event.kind == "job.note" and event.subject == self._subject:
                yield JobNote(event.reason)


def read_script(path: Path, *, python: bool = True) -> bytes:
    """Read the script's bytes, and check that it is one.

    Raises:
        ScriptError: it is missing, unreadable, too large or not Python.
    """
    try:
        source = path.read_bytes()
    except FileNotFoundError:
        raise ScriptError(f"there is no script {path}", "check the path") from None
    except IsADirectoryError:
        raise ScriptError(f"{path} is a folder, not a script", "give the path of a Python file") from None
    except OSError as error:
        raise ScriptError(f"cannot read {path}: {error.strerror}") from None
    if len(source) > LARGEST_SCRIPT:
        raise ScriptError(f"{path} is larger than {LARGEST_SCRIPT >> 20} MiB", "is this the right file?")
    if python:
        try:
            ast.parse(source, str(path))
            compile(source, str(path), "exec", dont_inherit=True)
        except SyntaxError as error:
            where = f"{path}:{error.lineno or 1}" + (f":{error.offset}" if error.offset else "")
            line = (error.text or "").rstrip()
            raise ScriptError(f"{where}: {error.msg}" + (f"\n    {line.strip()}" if line else "")) from None
        except ValueError as error:
            raise ScriptError(f"{path}: {error}") from None
    return source
