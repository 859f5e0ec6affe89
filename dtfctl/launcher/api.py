"""The launcher as a Python library: everything the command line does, as plain blocking calls.

>>> result = Cluster.up(load_spec("local.yaml"))                       # doctest: +SKIP
>>> job_id = result.cluster.submit(JobRequest("train.py"))             # doctest: +SKIP
>>> for item in result.cluster.follow_job(job_id): print(item)         # doctest: +SKIP
>>> result.cluster.down()                                              # doctest: +SKIP

Every error is a `LauncherError` with an exit code and a hint. A call that finds the controller dead starts it again
first; running tasks do not notice.

What only one call needs, and is slow to import, is imported by it: every command of the command line begins with this
module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from dtfctl.launcher.messages import controller_calls
from dtfctl.launcher.messages.controller import CertificatesRequest, JobsRequest, Nothing, StatusRequest
from dtfctl.launcher.messages.dashboard import StudyToShow
from dtfctl.launcher.model import (
    CertificateStatus,
    ClusterInfo,
    ClusterStatus,
    Event,
    HostStatus,
    JobItem,
    JobRequest,
    JobStatus,
    LinkStatus,
    LogLine,
    RestartResult,
)
from dtfctl.launcher.operator import (
    bringup,
    controller_client,
    history,
    host_access,
    submission,
    task_control,
)
from dtfctl.launcher.operator.controller_client import Connection
from dtfctl.launcher.operator.ssh_command import ssh_to
from dtfctl.launcher.paths import ClusterPaths
from dtfctl.launcher.providers import ownership
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.transfer import trees
from dtfctl.launcher.transfer.trees import Received

if TYPE_CHECKING:
    from dtfctl.launcher.operator import doctor
    from dtfctl.launcher.operator.completion import Names
    from dtfctl.launcher.operator.dashboard import OpenedDashboard
    from dtfctl.launcher.operator.graphs import GraphView
    from dtfctl.launcher.operator.serving import Served, ServeRequest
    from dtfctl.launcher.operator.tunnel import Tunnel
    from dtfctl.launcher.operator.why import Explanation

LOCAL_UP_S = 60.0
REMOTE_UP_S = 600.0


@dataclass(frozen=True, slots=True)
class UpResult:
    """What `up` reached."""

    cluster: Cluster | None
    """The cluster; None after a dry run."""
    wanted: int
    running: int
    changes: tuple[str, ...]
    """What was changed (dry run: would be), one line each; empty when the cluster already matched."""
    problems: tuple[str, ...]
    elapsed_s: float
    usable: bool = True
    """Whether at least `min` tasks of every group run."""
    no_login: bool = False
    """Whether no host that has a task let us in."""
    enough: bool = False
    """Whether as many tasks run as were to be waited for."""
    outdated: bool = False
    """All may run, but files, set-up or the shared folder of a host are not what the spec says."""

    @property
    def exit_code(self) -> int:
        """0 all run, 5 usable but not complete, 6 no host let us in, 1 not usable."""
        if self.cluster is None or ((self.running >= self.wanted or self.enough) and not self.outdated):
            return 0
        if self.no_login:
            return 6
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
        on_hosts: Callable[[Sequence[HostStatus]], None] | None = None,
        timeout_s: float | None = None,
        task_command: Sequence[str] = (),
        wait: bool = True,
        min_ready: int | None = None,
        only: str = "",
        prune: bool = False,
        adopt: bool = False,
    ) -> UpResult:
        """Make reality match `spec` and wait until every task runs or has failed.

        `on_event` sees each event as it happens, `on_hosts` the hosts whenever something changed, in this thread.
        On an unchanged, running cluster it changes nothing.
        Without `wait` it returns once the controller has the spec, with `min_ready` once so many tasks run.
        `only`: a selector; other tasks stay as they are, new ones among them are not started, and those that the spec
        does not have any more go on, unless `prune` is given. The result is about the selected tasks.
        `adopt`: take the cluster over first, whoever brought it up, on all hosts that let us in; what runs goes on.
        `timeout_s`: by default a minute, and ten where hosts may have to be installed first; time in the queue of a
        batch system that lends the hosts counts only where it is given.
        `task_command` replaces the program that tasks run (`python -m dtfctl.task`); it gets the path of its
        configuration file as last argument.

        Raises:
            Conflict: another `up` or `down` of this cluster runs, or what cannot change while it is up has changed.
            SpecError: the spec asks for what this version cannot do.
            NoSpace, PortTaken, ClusterFailed: it cannot start.
            DeadlineExpired: `timeout_s` ran out; the cluster goes on starting.
        """
        begun = time.monotonic()
        if dry_run:
            changes = bringup.would_change(spec, task_command, only, prune)
            return UpResult(None, len(spec.task_names), 0, changes, (), time.monotonic() - begun)
        queues = timeout_s is None
        if timeout_s is None:
            timeout_s = LOCAL_UP_S if spec.is_local else REMOTE_UP_S
        reached = bringup.bring_up(
            spec,
            on_event=on_event,
            on_hosts=on_hosts,
            timeout_s=timeout_s,
            queues=queues,
            task_command=task_command,
            wait=wait,
            min_ready=min_ready,
            only=only,
            prune=prune,
            adopt=adopt,
        )
        return UpResult(
            cluster=cls(spec.cluster),
            wanted=reached.wanted,
            running=reached.running,
            changes=reached.changes,
            problems=reached.problems,
            elapsed_s=time.monotonic() - begun,
            usable=reached.usable,
            no_login=reached.no_login,
            outdated=reached.outdated,
            enough=reached.enough or not wait or (min_ready is not None and reached.running >= min_ready),
        )

    @classmethod
    def open(cls, name: str | None = None) -> Cluster:
        """Open the cluster called `name`, or the newest; start its controller again if it died.

        Raises:
            NoSuchCluster, ControllerUnreachable.
        """
        cluster = cls(controller_client.resolve(name).name)
        cluster._connection.call(controller_calls.PING, Nothing())
        return cluster

    @property
    def owner(self) -> str:
        """The user who brought the cluster up, and on which machine: `user@machine`; empty: not known."""
        return ownership.name_of(self._connection.paths)

    def status(self) -> ClusterStatus:
        return self._connection.call(
            controller_calls.STATUS, StatusRequest(), timeout_s=controller_client.FOLLOW_S
        ).status

    def newer_status(self, version: int, wait_s: float) -> tuple[ClusterStatus, int]:
        """Wait, up to `wait_s`, for a status newer than `version` (0: any); the newest there is, and its version."""
        request = StatusRequest(newer_than=version, wait_s=wait_s)
        reply = self._connection.call(controller_calls.STATUS, request, timeout_s=wait_s + controller_client.FOLLOW_S)
        return reply.status, reply.version

    # ------------------------------------------------------------------ jobs

    def submit(self, request: JobRequest, tell: Callable[[str], None] = lambda _text: None) -> str:
        """Check the script, ship it with what it needs, and queue it; the job's id.

        `tell` hears what takes long before that: packages that are collected for hosts without an index.

        Raises:
            ScriptError: missing, unreadable, with a syntax error (message has file:line), or something that it needs
                cannot be sent. Nothing was queued. UsageError: its working folder is none, or too large.
        """
        return submission.submit(self._connection, request, tell)

    def serve(self, request: ServeRequest, tell: Callable[[str], None] = lambda _text: None) -> Served:
        """Serve a model on tasks of this cluster by a job, and wait until it answers; see `operator.serving`.

        Raises:
            UsageError: it is asked for what cannot be. ClusterFailed: the job ended before it answered.
        """
        from dtfctl.launcher.operator import serving

        return serving.serve(self._connection, request, tell)

    def job(self, job_id: str) -> JobStatus:
        return submission.read_jobs(self._connection, [job_id])[0]

    def jobs(self) -> list[JobStatus]:
        """List all jobs, the newest first."""
        return submission.read_jobs(self._connection, [])

    def newer_jobs(self, ids: Sequence[str], version: int, wait_s: float) -> tuple[list[JobStatus], int]:
        """Wait, up to `wait_s`, for news after `version` (0: any) of these jobs; how they are then, and its version."""
        request = JobsRequest(tuple(ids), version, wait_s)
        reply = self._connection.call(controller_calls.JOBS, request, timeout_s=wait_s + controller_client.FOLLOW_S)
        return list(reply.jobs), reply.version

    def cancel(self, job_ids: Sequence[str] | None, *, grace_s: float = 10.0) -> list[JobStatus]:
        """Stop jobs (SIGTERM, after `grace_s` SIGKILL) and wait until they have ended; final jobs stay as they are.

        None: every job that has not ended, queued ones too.
        """
        if job_ids is not None and not job_ids:
            return []
        return submission.cancel(self._connection, job_ids or (), grace_s)

    def follow_job(self, job_id: str) -> Iterator[JobItem]:
        """Yield all output, progress and changes of a job from its start; the last item is `JobEnded`.

        Survives the death of the controller. Closing the iterator leaves the job running.
        """
        self.job(job_id)  # a wrong id is an error of this call, not of the first item
        return submission.follow_job(self._connection, job_id)

    # ------------------------------------------------------------------ tasks

    def restart(self, selector: str, *, wait_s: float = 30.0, grace_s: float = 10.0) -> RestartResult:
        """Restart the tasks of `selector`, forget their failure counts, and wait until they run.

        `wait_s` 0: do not wait. `grace_s`: time to end between SIGTERM and SIGKILL.

        Selectors: `worker`, `worker/1`, `worker/0-3`, `ps`, `host:NAME`, `failed`, `all`.
        `failed` matches tasks that are failed, crashed, lost or down; when there is none the result is empty.

        Raises:
            NoSuchTask, DeadlineExpired.
        """
        return RestartResult(tuple(task_control.restart(self._connection, selector, wait_s, grace_s)))

    def stop(self, selector: str, *, grace_s: float = 10.0) -> RestartResult:
        """Stop tasks; they stay stopped until `start` or `restart`."""
        return RestartResult(tuple(task_control.stop(self._connection, selector, grace_s)))

    def start(self, selector: str, *, wait_s: float = 30.0) -> RestartResult:
        """Start tasks that were stopped, and wait until they run."""
        return RestartResult(tuple(task_control.start(self._connection, selector, wait_s)))

    def scale(self, counts: Mapping[str, int], *, wait_s: float = 60.0) -> tuple[str, ...]:
        """Change how many tasks a job name has, and wait until they run: what changed, one line each.

        Only what differs changes: tasks with the highest numbers are stopped, the others go on as they are.

        Raises:
            UsageError: no such tasks, or fewer than `min`. SpecError: no room for them. DeadlineExpired.
        """
        return tuple(task_control.scale(self._connection, counts, wait_s))

    # ------------------------------------------------------------------ hosts

    def drain(self, hosts: Sequence[str], *, reason: str = "") -> tuple[str, ...]:
        """Take hosts out of use: their tasks move as far as there is room, new ones do not come. Those changed.

        Raises:
            NoSuchHost.
        """
        return tuple(task_control.hosts(self._connection, hosts, "drain", reason))

    def wait_drained(
        self,
        hosts: Sequence[str],
        tasks: Sequence[str],
        *,
        wait_s: float = 60.0,
        on_wait: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> tuple[str, ...]:
        """Wait until what can move away from drained hosts runs elsewhere: the tasks that stay, as nothing has room.

        `tasks`: those that were there before. `on_wait` is told which are on their way, and again when those changed.

        Raises:
            DeadlineExpired: they have not arrived within `wait_s`.
        """
        return tuple(task_control.wait_drained(self._connection, hosts, tasks, wait_s, on_wait))

    def undrain(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """Put drained hosts back into use; tasks that moved away stay where they are."""
        return tuple(task_control.hosts(self._connection, hosts, "undrain", ""))

    def release(self, hosts: Sequence[str]) -> tuple[str, ...]:
        """End the quarantine of hosts now, without waiting for a probe."""
        return tuple(task_control.hosts(self._connection, hosts, "release", ""))

    # ------------------------------------------------------------------ what is written

    def logs(
        self,
        selector: str = "all",
        *,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        streams: Sequence[str] = ("out", "err"),
        grep: str | None = None,
        previous: bool = False,
    ) -> Iterator[LogLine]:
        """Yield output of tasks, of a job (`job:ID`, or its bare id), or of one of its processes (`job:ID:worker/0`).

        Also `controller` and `agent:HOST`. Merged by time. `tail`: last n lines of each process. `since`: seconds
        since the epoch. `grep`: a regular expression. `previous`: only what the last but one start of each process
        wrote. With `follow` it ends when the job has ended, or never for tasks.

        Raises:
            NoSuchTask, NoSuchJob, UsageError: nothing of that name, or not a regular expression.
            PartlyDone: from the iterator, at its end, when a host did not answer.
        """
        special = selector.startswith((*history.DAEMONS, "job:"))
        if not special and any(job.id == selector for job in self.jobs()):
            selector = f"job:{selector}"
        query = history.LogQuery(selector, follow, tail, since, tuple(streams), grep, previous)
        return history.logs(self._connection, query)

    def log_batches(self, selector: str, tail: int, wait_s: float) -> Iterator[list[LogLine]]:
        """Yield what tasks or a job write, as it comes, and an empty list each `wait_s` in which nothing does.

        Begins with the last `tail` lines of each process; ends with the job, or never for tasks.

        Raises:
            NoSuchTask, NoSuchJob: from the iterator, nothing is of that name.
        """
        from dtfctl.launcher.operator.output import LogReader

        reader = LogReader(self._connection, selector, tail)
        while True:
            batch = reader.read(wait_s)
            yield batch.lines
            if batch.final and batch.caught_up:
                return

    def events(self, *, follow: bool = False, since: float | None = None) -> Iterator[Event]:
        """Yield what happened, oldest first; with `follow` also what will."""
        return history.events(self._connection, follow=follow, since=since)

    def why(self, name: str) -> Explanation:
        """Explain why task `worker/1`, or the job of this id, is in its state.

        Raises:
            NoSuchTask: there is neither.
        """
        from dtfctl.launcher.operator.why import explain

        return explain(name, self.status(), sorted(self.events(), key=lambda event: event.seq))

    # ------------------------------------------------------------------ hosts and what lies on them

    def spec(self) -> ClusterSpec:
        """Read what the cluster is to be like."""
        return self._connection.call(controller_calls.READ_SPEC, Nothing()).spec

    def targets(self, selector: str) -> list[host_access.Target]:
        """Find whom `exec`, `get` and `put` mean by tasks, `host:NAME`, `job:ID` or `job:ID:worker/0`.

        Raises:
            UsageError, NotFound.
        """
        return host_access.targets(selector, self.status())

    def exec(
        self, target: host_access.Target, words: Sequence[str], terminal: host_access.Terminal | None = None
    ) -> host_access.Command:
        """Begin to run a command there; nothing of it outlives `close`, or this process."""
        return host_access.Command(self._connection, target, words, terminal)

    def get(
        self,
        target: host_access.Target,
        path: str,
        destination: Path,
        *,
        as_folder: bool = False,
        on_bytes: host_access.OnBytes = host_access.unheard,
    ) -> Received:
        """Copy a file or folder from there: into the folder `destination`, or to this new name.

        Raises:
            NotFound, TransferFailed, ConnectionLost, NoSpace.
        """
        name = PurePosixPath(path).name
        if name in ("", "..") and not destination.is_dir():
            name = destination.name
        place = trees.place(destination, name if name not in ("", "..") else target.host, as_folder=as_folder)
        return host_access.fetch(self._connection, target, path, place, on_bytes)

    def put(
        self,
        source: Path,
        target: host_access.Target,
        path: str,
        *,
        on_bytes: host_access.OnBytes = host_access.unheard,
    ) -> Received:
        """Copy a file or folder there: into the folder `path`, or to this new name. Raises as `get`."""
        return host_access.store(self._connection, source, target, path, on_bytes)

    def attach(self, task: str, *, tail: int = 10) -> Iterator[LogLine]:
        """Yield what one task writes from now on, until the run that there is now ends.

        Raises:
            UsageError, NoSuchTask: `task` is not one task. Conflict: it does not run.
        """
        return history.attach(self._connection, task, tail)

    def inspect(self, host: str) -> doctor.Answer:
        """Ask a host's agent for its version, clock, limits, disk and GPUs; with why not, where it does not answer."""
        from dtfctl.launcher.operator import examination

        return examination.inspect(self._connection, host)

    def examine(self) -> list[doctor.Finding]:
        """Examine what `doctor` looks at: the cluster's files here, its controller, and all hosts at once."""
        from dtfctl.launcher.operator import examination

        return examination.examine(self._connection, self.status(), self.spec())

    def measure_links(self) -> list[LinkStatus]:
        """Have all hosts measure the way to each other, no host two at a time, and keep what they find.

        Takes a second for each pair of a host's, both ways; hosts that are not `up` are left out.
        """
        from dtfctl.launcher.operator import examination

        return examination.measure_links(self._connection, self.status())

    def ssh_command(self, name: str) -> list[str]:
        """Make the command of the system's ssh to a host, or to a task's, as the spec says; the last word is the host.

        Raises:
            NotFound: no such host. Conflict: it is this machine.
        """
        return ssh_to(name, self.spec(), self.status())

    def certificates(self, *, renew: bool = False) -> list[CertificateStatus]:
        """Read when each certificate of the cluster ends. `renew`: replace all of them first, with new keys."""
        request = CertificatesRequest(renew=renew)
        reply = self._connection.call(controller_calls.CERTIFICATES, request, timeout_s=60.0)
        return list(reply.certificates)

    def metrics(self, *, timeout_s: float = 10.0) -> str:
        """Read the metrics page, as Prometheus sees it.

        Raises:
            Conflict: the spec has none. ControllerUnreachable: it does not answer.
        """
        from dtfctl.launcher.operator import metrics_client

        return metrics_client.read(self._connection, self.spec(), timeout_s)

    def scrape_config(self) -> dict[str, Any]:
        """Make the entry for `scrape_configs` of a Prometheus on this machine. Raises Conflict: there is no page."""
        from dtfctl.launcher.operator import metrics_client

        return metrics_client.scrape_config(self._connection, self.spec())

    # ------------------------------------------------------------------ ways in, and the end

    def connect(self, task: str = "worker/0", *, port: int = 0) -> Tunnel:
        """Open a plaintext port on this machine's loopback that leads to the master of `task`; 0: a free port.

        Raises:
            UsageError, NoSuchTask: `task` is not one task of this cluster.
            Conflict: the port is taken, or the task has not started.
        """
        from dtfctl.launcher.operator.tunnel import Tunnel

        return Tunnel(self._connection.paths, self.status(), task, port)

    def open_dashboard(self, port: int | None = None) -> OpenedDashboard:
        """Have the controller serve the dashboard, if it does not yet, until `close_dashboard` or `down`.

        Args:
            port: of this machine; None: where it is, or a free one.

        Raises:
            Conflict: the port is taken, or the cluster's file says another. ClusterFailed: it cannot be served.
        """
        from dtfctl.launcher.operator import dashboard

        return dashboard.open_dashboard(self._connection, port)

    def close_dashboard(self) -> bool:
        """End the dashboard, for all who look at it; False where there was none. Raises Conflict: the file wants it."""
        from dtfctl.launcher.operator import dashboard

        return dashboard.close_dashboard(self._connection)

    def show_study(self, name: str, content: str) -> None:
        """Have the dashboard show a study: its file, as `dashboard.studies` reads it, until `down`."""
        self._connection.call(controller_calls.SHOW_STUDY, StudyToShow(name, content))

    def profile(
        self,
        job: str = "",
        *,
        file: Path,
        steps: int = 20,
        seconds: float = 30.0,
        format: Literal["perfetto", "chrome", "xplane"] = "perfetto",
        on_steps: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> dict[str, Any]:
        """Record a timeline of what all tasks do in some steps, write it to `file`, and give its summary.

        Args:
            job: whose steps; "": of all jobs.
            steps, seconds: how many of each task that runs any, and the longest time.
            format: of the file; `xplane` makes it a folder for TensorBoard.
            on_steps: is told how many steps of each task are recorded.

        Raises:
            NoSuchJob.
            Conflict: no task runs, nothing ran a step, or somebody else records.
        """
        from dtfctl.launcher.operator import profiling

        return profiling.profile(self._connection.paths, self.status(), job, steps, seconds, file, format, on_steps)

    def graph(self, job: str = "", view: GraphView | None = None) -> dict[str, Any]:
        """Show what a job's steps are made of, stage by stage, as its tasks have it; see `operator.graphs.of_job`.

        Raises:
            NoSuchJob.
            Conflict: no task has its graph.
        """
        from dtfctl.launcher.operator import graphs

        return graphs.of_job(self._connection.paths, self.status(), job, view or graphs.GraphView())

    def down(self, *, grace_s: float = 10.0, keep_logs: bool = True) -> tuple[str, ...]:
        """Stop jobs, tasks, agents and the controller; delete all but logs and checkpoints. Problems, if any."""
        return self.down_by_name(self.name, grace_s=grace_s, keep_logs=keep_logs)[1]

    @classmethod
    def down_by_name(
        cls,
        name: str | None = None,
        *,
        grace_s: float = 10.0,
        force: bool = False,
        keep_logs: bool = True,
        on_wait: Callable[[Sequence[str]], None] | None = None,
    ) -> tuple[str, tuple[str, ...]]:
        """Take a cluster `down` that may be half made, or whose controller cannot start; return (name, problems).

        With problems the cluster is still there, unless `force` gave up the hosts that could not be reached.
        `on_wait` is told now and then which hosts it waits for.
        """
        return bringup.take_down(name, grace_s, force, keep_logs, on_wait)


def cluster_names() -> list[str]:
    """List the names of the clusters that are up, the newest first. Reads the disk only."""
    return controller_client.names()


def names_of(cluster: str | None) -> Names:
    """List what a cluster has by name, as far as it can be told at once. Starts nothing, and logs in nowhere."""
    from dtfctl.launcher.operator import completion

    return completion.names_of(cluster)


def clusters() -> list[ClusterInfo]:
    """List the clusters that are up, the newest first. Starts nothing."""
    return controller_client.existing()
