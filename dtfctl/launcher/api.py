"""The launcher as a Python library: everything the command line does, as plain blocking calls.

>>> result = Cluster.up(load_spec("local.yaml"))                       # doctest: +SKIP
>>> job_id = result.cluster.submit(JobRequest("train.py"))             # doctest: +SKIP
>>> for item in result.cluster.follow_job(job_id): print(item)         # doctest: +SKIP
>>> result.cluster.down()                                              # doctest: +SKIP

Every error is a `LauncherError` with an exit code and a hint. A call that finds the controller dead starts it again
first; running tasks do not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from dtfctl.launcher.model import (
    ClusterInfo,
    ClusterStatus,
    Event,
    JobItem,
    JobRequest,
    JobStatus,
    LogLine,
    RestartResult,
)
from dtfctl.launcher.spec.model import ClusterSpec


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

    @classmethod
    def up(
        cls,
        spec: ClusterSpec,
        *,
        dry_run: bool = False,
        on_event: Callable[[Event], None] | None = None,
        timeout_s: float = 60.0,
    ) -> UpResult:
        """Make reality match `spec` and wait until every task runs or has failed.

        `on_event` sees each event as it happens, in this thread. On an unchanged, running cluster it changes nothing.

        Raises:
            Conflict: another `up` or `down` of this cluster runs, or the running cluster has other tasks.
            NoSpace, PortTaken, ClusterFailed: it cannot start.
            DeadlineExpired: `timeout_s` ran out; the cluster goes on starting.
        """
        raise NotImplementedError

    @classmethod
    def open(cls, name: str | None = None) -> Cluster:
        """The cluster called `name`, or the newest; starts its controller again if it died.

        Raises:
            NoSuchCluster, ControllerUnreachable.
        """
        raise NotImplementedError

    def status(self) -> ClusterStatus:
        raise NotImplementedError

    def submit(self, request: JobRequest) -> str:
        """Check the script, ship it and queue it; the job's id.

        Raises:
            ScriptError: missing, unreadable or with a syntax error (message has file:line). Nothing was queued.
        """
        raise NotImplementedError

    def job(self, job_id: str) -> JobStatus:
        raise NotImplementedError

    def jobs(self) -> list[JobStatus]:
        """All jobs, the newest first."""
        raise NotImplementedError

    def cancel(self, job_ids: Sequence[str], *, grace_s: float = 10.0) -> list[JobStatus]:
        """Stop jobs (SIGTERM, after `grace_s` SIGKILL) and wait until they have ended; final jobs stay as they are."""
        raise NotImplementedError

    def restart(self, selector: str, *, wait_s: float = 30.0) -> RestartResult:
        """Restart the tasks of `selector`, forget their failure counts, and wait until they run.

        Selectors: `worker`, `worker/1`, `worker/0-3`, `ps`, `job:ID`, `host:NAME`, `failed`, `all`.
        `failed` matches tasks that are failed, crashed, lost or down; when there is none the result is empty.

        Raises:
            NoSuchTask, DeadlineExpired.
        """
        raise NotImplementedError

    def stop(self, selector: str, *, grace_s: float = 10.0) -> RestartResult:
        """Stop tasks; they stay stopped until `start` or `restart`."""
        raise NotImplementedError

    def start(self, selector: str) -> RestartResult:
        raise NotImplementedError

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
        raise NotImplementedError

    def follow_job(self, job_id: str) -> Iterator[JobItem]:
        """All output, progress and changes of a job from its start; the last item is `JobEnded`.

        Survives the death of the controller. Closing the iterator leaves the job running.
        """
        raise NotImplementedError

    def events(self, *, follow: bool = False, since: float | None = None) -> Iterator[Event]:
        raise NotImplementedError

    def down(self, *, grace_s: float = 10.0, on_event: Callable[[Event], None] | None = None) -> tuple[str, ...]:
        """Stop jobs, tasks, agents and the controller; delete all but logs and checkpoints. Problems, if any."""
        raise NotImplementedError

    @classmethod
    def down_by_name(
        cls,
        name: str | None = None,
        *,
        grace_s: float = 10.0,
        on_event: Callable[[Event], None] | None = None,
    ) -> tuple[str, tuple[str, ...]]:
        """As `down`, also for a cluster that is half made or whose controller cannot start: (name, problems)."""
        raise NotImplementedError


def clusters() -> list[ClusterInfo]:
    """Every cluster that is up, the newest first. Starts nothing."""
    raise NotImplementedError
