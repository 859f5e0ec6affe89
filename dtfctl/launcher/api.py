"""The launcher as a Python library: everything the command line does, as plain blocking calls.

>>> result = Cluster.up(load_spec("local.yaml"))                       # doctest: +SKIP
>>> job_id = result.cluster.submit(JobRequest("train.py"))             # doctest: +SKIP
>>> for item in result.cluster.follow_job(job_id): print(item)         # doctest: +SKIP
>>> result.cluster.down()                                              # doctest: +SKIP

Every error is a `LauncherError` with an exit code and a hint. A call that finds the controller dead starts it again
first; running tasks do not notice.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dtfctl.launcher import codec, connect, output
from dtfctl.launcher.connect import Connection
from dtfctl.launcher.controller import methods
from dtfctl.launcher.errors import (
    ClusterFailed,
    DeadlineExpired,
    PartlyDone,
    ScriptError,
)
from dtfctl.launcher.files import explained
from dtfctl.launcher.model import (
    ClusterInfo,
    ClusterStatus,
    Event,
    JobChanged,
    JobEnded,
    JobItem,
    JobOutput,
    JobProgress,
    JobRequest,
    JobStatus,
    LogLine,
    RestartResult,
    TaskStatus,
)
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.selectors import is_failed
from dtfctl.launcher.spec.available import require_available
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.tunnel import Tunnel
from dtfctl.launcher.wire import from_message, to_message
from dtfctl.protocol import controller_pb2 as pb

POLL_S = 5.0
"""How long one long poll waits; the next follows at once."""
FOLLOW_LOGS_S = 0.3
LARGEST_SCRIPT = 32 * 2**20
DOWN_MARGIN_S = 60.0


@dataclass(frozen=True, slots=True)
class UpResult:
    """What `up` reached."""

    cluster: Cluster | None
    """None after a dry run."""
    wanted: int
    running: int
    changes: tuple[str, ...]
    """One line each, what was (dry run: would be) changed; empty when the cluster already matched."""
    problems: tuple[str, ...]
    elapsed_s: float
    usable: bool = True
    """At least `min` tasks of every group run."""

    @property
    def exit_code(self) -> int:
        """0 all run, 5 usable but not complete, 1 not usable."""
        if self.cluster is None or self.running >= self.wanted:
            return 0
        return 5 if self.usable else 1


class Cluster:
    """A cluster that is up. Make one with `Cluster.up` or `Cluster.open`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._connection = Connection(ClusterPaths.of(name))

    @classmethod
    def up(
        cls,
        spec: ClusterSpec,
        *,
        dry_run: bool = False,
        on_event: Callable[[Event], None] | None = None,
        timeout_s: float = 60.0,
        task_command: Sequence[str] = (),
    ) -> UpResult:
        """Make reality match `spec` and wait until every task runs or has failed.

        `on_event` sees each event as it happens, in this thread. On an unchanged, running cluster it changes nothing.
        `task_command` replaces the program that tasks run (`python -m dtfctl.task`); it gets the path of its
        configuration file as last argument.

        Raises:
            Conflict: another `up` or `down` of this cluster runs, or the running cluster has other tasks.
            SpecError: the spec asks for what this version cannot do (hosts over SSH).
            NoSpace, PortTaken, ClusterFailed: it cannot start.
            DeadlineExpired: `timeout_s` ran out; the cluster goes on starting.
        """
        begun = time.monotonic()
        paths = ClusterPaths.of(spec.cluster)
        require_available(spec)
        request = pb.ApplyRequest(spec_json=codec.encode(spec), task_command=task_command, dry_run=dry_run)
        wanted = len(spec.task_names)
        if dry_run:
            return cls._dry_run(paths, request, spec, begun)
        with connect.operation(paths, "bring up"):
            with explained(paths.folder):
                connect.prepare(paths)
            cluster = cls(spec.cluster)
            reply = cluster._connection.call(methods.APPLY, request)
            status = cluster._wait_settled(reply.event, on_event, begun + timeout_s)
        result = UpResult(
            cluster=cluster,
            wanted=wanted,
            running=sum(task.state == "running" for task in status.tasks),
            changes=tuple(reply.changes),
            problems=tuple(status.problems),
            elapsed_s=time.monotonic() - begun,
            usable=status.usable,
        )
        return result

    @classmethod
    def _dry_run(cls, paths: ClusterPaths, request: pb.ApplyRequest, spec: ClusterSpec, begun: float) -> UpResult:
        if connect.read_created(paths) is not None:
            cluster = cls(spec.cluster)
            changes = tuple(cluster._connection.call(methods.APPLY, request).changes)
        else:
            from dtfctl.launcher.controller.plan import place

            changes = tuple(f"start {name} on {host}" for name, host in place(spec).items())
        return UpResult(None, len(spec.task_names), 0, changes, (), time.monotonic() - begun)

    def _wait_settled(
        self, after_event: int, on_event: Callable[[Event], None] | None, deadline: float
    ) -> pb.ClusterStatus:
        """Until every task runs or has failed for good."""
        version = 0
        while True:
            left = deadline - time.monotonic()
            status = self._connection.call(
                methods.STATUS, pb.StatusRequest(newer_than=version, wait_s=max(0.0, min(left, 0.5)))
            )
            version = status.version
            if on_event is not None:
                for event in self._events_after(after_event):
                    after_event = event.seq
                    on_event(event)
            if status.settled:
                return status
            if left <= 0:
                waiting = ", ".join(
                    f"{task.job}/{task.index} ({task.state})" for task in status.tasks if task.state != "running"
                )
                raise DeadlineExpired(
                    f"cluster {self.name} is not complete: {waiting}",
                    f"it goes on starting; look with: dtfctl status -c {self.name}",
                )

    @classmethod
    def open(cls, name: str | None = None) -> Cluster:
        """The cluster called `name`, or the newest; starts its controller again if it died.

        Raises:
            NoSuchCluster, ControllerUnreachable.
        """
        cluster = cls(connect.resolve(name).name)
        cluster._connection.call(methods.PING, pb.Nothing())
        return cluster

    def status(self) -> ClusterStatus:
        return from_message(ClusterStatus, self._connection.call(methods.STATUS, pb.StatusRequest()))

    def submit(self, request: JobRequest) -> str:
        """Check the script, ship it and queue it; the job's id.

        Raises:
            ScriptError: missing, unreadable or with a syntax error (message has file:line). Nothing was queued.
        """
        path = Path(request.script).expanduser().absolute()
        source = read_script(path, python=request.framework != "command")
        env = dict(request.env)
        if request.framework != "command":
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
        message = pb.SubmitRequest(
            request=to_message(complete, pb.JobRequest),
            source=source,
            sha256=hashlib.sha256(source).hexdigest(),
        )
        return self._connection.call(methods.SUBMIT, message).job_id

    def job(self, job_id: str) -> JobStatus:
        return self._jobs([job_id])[0]

    def jobs(self) -> list[JobStatus]:
        """All jobs, the newest first."""
        return self._jobs([])

    def _jobs(self, ids: Sequence[str]) -> list[JobStatus]:
        reply = self._connection.call(methods.JOBS, pb.JobsRequest(ids=ids))
        return [from_message(JobStatus, job) for job in reply.jobs]

    def cancel(self, job_ids: Sequence[str], *, grace_s: float = 10.0) -> list[JobStatus]:
        """Stop jobs (SIGTERM, after `grace_s` SIGKILL) and wait until they have ended; final jobs stay as they are."""
        ids = list(job_ids)
        reply = self._connection.call(methods.CANCEL, pb.CancelRequest(ids=ids, grace_s=grace_s))
        deadline = time.monotonic() + grace_s + 20.0
        while True:
            found = [from_message(JobStatus, job) for job in reply.jobs]
            if all(job.is_final for job in found):
                return found
            if time.monotonic() > deadline:
                alive = ", ".join(job.id for job in found if not job.is_final)
                raise DeadlineExpired(f"still ending: {alive}", f"look with: dtfctl jobs -c {self.name}")
            reply = self._connection.call(methods.JOBS, pb.JobsRequest(ids=ids, newer_than=reply.version, wait_s=1.0))

    def restart(self, selector: str, *, wait_s: float = 30.0) -> RestartResult:
        """Restart the tasks of `selector`, forget their failure counts, and wait until they run.

        Selectors: `worker`, `worker/1`, `worker/0-3`, `ps`, `host:NAME`, `failed`, `all`.
        `failed` matches tasks that are failed, crashed, lost or down; when there is none the result is empty.

        Raises:
            NoSuchTask, DeadlineExpired.
        """
        before = {task.name: task.incarnation for task in self.status().tasks}
        names = self._desire(selector, "restart", 10.0)

        def restarted(task: TaskStatus) -> bool:
            if task.incarnation <= before.get(task.name, 0):
                return is_failed(task) and task.state != "pending" and time.monotonic() > begun + 1.0
            return task.state in ("running", "failed", "crashed")

        begun = time.monotonic()
        if wait_s > 0:
            self._wait_tasks(names, restarted, wait_s, "run again")
        return RestartResult(tuple(names))

    def stop(self, selector: str, *, grace_s: float = 10.0) -> RestartResult:
        """Stop tasks; they stay stopped until `start` or `restart`."""
        names = self._desire(selector, "stop", grace_s)
        final = ("stopped", "failed", "crashed", "done")
        self._wait_tasks(names, lambda task: task.state in final, grace_s + 10.0, "stopped")
        return RestartResult(tuple(names))

    def start(self, selector: str, *, wait_s: float = 30.0) -> RestartResult:
        """Start tasks that were stopped, and wait until they run."""
        names = self._desire(selector, "start", 10.0)
        self._wait_tasks(names, lambda t: t.state in ("running", "failed", "crashed"), wait_s, "run")
        return RestartResult(tuple(names))

    def _desire(self, selector: str, verb: str, grace_s: float) -> list[str]:
        request = pb.DesireRequest(selector=selector, verb=verb, grace_s=grace_s)
        return list(self._connection.call(methods.DESIRE, request).tasks)

    def _wait_tasks(self, names: Sequence[str], done: Callable[[TaskStatus], bool], wait_s: float, what: str) -> None:
        deadline = time.monotonic() + wait_s
        version = 0
        while names:
            message = self._connection.call(methods.STATUS, pb.StatusRequest(newer_than=version, wait_s=0.5))
            version = message.version
            tasks = [from_message(TaskStatus, task) for task in message.tasks]
            waiting = [task.name for task in tasks if task.name in names and not done(task)]
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise DeadlineExpired(
                    f"after {wait_s:.0f} s these have not {what}: {', '.join(waiting)}",
                    f"it goes on; look with: dtfctl status -c {self.name}",
                )

    def logs(
        self,
        selector: str = "all",
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        streams: Sequence[str] = ("out", "err"),
    ) -> Iterator[LogLine]:
        """Output of tasks, or with `job:ID` (or a bare job id) of a job; also `controller` and `agent:HOST`.

        Merged by time. `tail`: last n lines of each process. `since`: seconds since the epoch. With `follow` it
        ends when the job has ended, or never for tasks.
        """
        if selector == "controller" or selector.startswith("agent:"):
            lines = output.daemon_lines(self._connection.paths.logs, selector, follow=follow, tail=tail)
        else:
            if not selector.startswith("job:") and any(job.id == selector for job in self.jobs()):
                selector = f"job:{selector}"
            # Asked now, not at the first item, so that a wrong selector is an error of this call.
            reader = output.LogReader(self._connection, selector, tail or 0)
            first = reader.read(0.0)
            lines = output.merged(reader, first, follow=follow, wait_s=POLL_S)
        return (line for line in lines if line.stream in streams and (since is None or line.time >= since))

    def follow_job(self, job_id: str) -> Iterator[JobItem]:
        """All output, progress and changes of a job from its start; the last item is `JobEnded`.

        Survives the death of the controller. Closing the iterator leaves the job running.
        """
        status = self.job(job_id)
        return self._follow(status)

    def _follow(self, status: JobStatus) -> Iterator[JobItem]:
        reader = output.LogReader(self._connection, f"job:{status.id}")
        seen: dict[str, float] = {}
        state = "queued"
        while True:
            # The state is read before the output: what a final job wrote is then complete.
            status = self.job(status.id)
            if status.state != state and not status.is_final:
                yield JobChanged(status)
            state = status.state
            lines, complete = reader.read(0.0 if status.is_final else FOLLOW_LOGS_S)
            for line in lines:
                yield JobOutput(line)
            for number, client in enumerate(status.clients):
                progress = client.progress
                if progress is not None and seen.get(client.name) != progress.time:
                    seen[client.name] = progress.time
                    yield JobProgress(client.name, progress, chief=number == 0)
            if status.is_final and complete:
                for line in reader.rest():
                    yield JobOutput(line)
                yield JobEnded(status)
                return
            if not status.clients:
                self._connection.call(methods.JOBS, pb.JobsRequest(newer_than=reader.version, wait_s=0.2))

    def connect(self, task: str = "worker/0", *, port: int = 0) -> Tunnel:
        """Open a plaintext port on this machine's loopback that leads to the master of `task`; 0: a free port.

        Raises:
            UsageError, NoSuchTask: `task` is not one task of this cluster.
            Conflict: the port is taken, or the task has not started.
        """
        return Tunnel(self._connection.paths, self.status(), task, port)

    def events(self, *, follow: bool = False, since: float | None = None) -> Iterator[Event]:
        """What happened, oldest first; with `follow` also what will."""
        after = 0
        while True:
            for event in self._events_after(after, since or 0.0, POLL_S if follow else 0.0):
                after = event.seq
                yield event
            if not follow:
                return

    def _events_after(self, after: int, since: float = 0.0, wait_s: float = 0.0) -> list[Event]:
        found: list[Event] = []
        while True:
            request = pb.EventsRequest(after=after, since=since, wait_s=0.0 if found else wait_s)
            batch = [from_message(Event, item) for item in self._connection.call(methods.EVENTS, request).events]
            found += batch
            if len(batch) < 1000:
                return found
            after = batch[-1].seq

    def down(self, *, grace_s: float = 10.0, on_event: Callable[[Event], None] | None = None) -> tuple[str, ...]:
        """Stop jobs, tasks, agents and the controller; delete all but logs and checkpoints. Problems, if any."""
        return self.down_by_name(self.name, grace_s=grace_s, on_event=on_event)[1]

    @classmethod
    def down_by_name(
        cls,
        name: str | None = None,
        *,
        grace_s: float = 10.0,
        on_event: Callable[[Event], None] | None = None,
    ) -> tuple[str, tuple[str, ...]]:
        """As `down`, also for a cluster that is half made or whose controller cannot start: (name, problems)."""
        paths = connect.resolve(name)
        with connect.operation(paths, "take down"):
            problems = cls._down(paths, grace_s, on_event)
            if problems:
                return paths.name, problems
            connect.forget(paths)
            paths.lock.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            paths.folder.rmdir()
        return paths.name, ()

    @classmethod
    def _down(cls, paths: ClusterPaths, grace_s: float, on_event: Callable[[Event], None] | None) -> tuple[str, ...]:
        """Let the controller stop everything, and wait for its end."""
        cluster = cls(paths.name)
        try:
            # Started again if need be: a killed `up` may have left a controller that is still on its way.
            try:
                cluster._connection.call(methods.PING, pb.Nothing())
            except ClusterFailed:
                if (paths.folder / "hosts").exists():
                    raise
                return ()  # it cannot start, and never had an agent to stop
            try:
                cluster._connection.call(
                    methods.DOWN, pb.DownRequest(grace_s=grace_s), timeout_s=grace_s + DOWN_MARGIN_S
                )
            except PartlyDone as error:
                return (error.message,)
            connect.wait_gone(paths)
        finally:
            cluster._connection.close()
        return ()


def clusters() -> list[ClusterInfo]:
    """Every cluster that is up, the newest first. Starts nothing."""
    return connect.existing()


def read_script(path: Path, *, python: bool = True) -> bytes:
    """The script's bytes, once it is known to be one.

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
