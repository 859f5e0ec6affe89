"""A launcher without processes: answers with the values it was given and remembers what it was asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dtfctl.launcher import api
from dtfctl.launcher.errors import LauncherError, NoSuchCluster, NoSuchJob
from dtfctl.launcher.model import (
    ClusterInfo,
    ClusterStatus,
    ControllerStatus,
    Event,
    HostStatus,
    JobItem,
    JobRequest,
    JobStatus,
    LogLine,
    RestartResult,
    TaskStatus,
)
from dtfctl.launcher.operator.completion import Names
from dtfctl.launcher.selectors import select
from dtfctl.launcher.spec import ClusterSpec


def task(name: str, **changes: Any) -> TaskStatus:
    """A healthy running task, except for `changes`."""
    job, _, index = name.partition("/")
    healthy = TaskStatus(
        job,
        int(index),
        "running",
        "healthy",
        "localhost",
        100 + int(index),
        "127.0.0.1:20000",
        1,
        0,
        72.0,
        3.2,
        60 << 20,
    )
    return replace(healthy, **changes)


def status(*tasks: TaskStatus, jobs: Sequence[JobStatus] = (), problems: Sequence[str] = ()) -> ClusterStatus:
    """A cluster `demo` on localhost with these tasks."""
    host = HostStatus("localhost", "up", 99, "unix:/a", 2, 0.5, 8 << 30, 4 << 30, 100 << 30, 0, len(tasks))
    controller = ControllerStatus(98, "unix:/c", 1, 75.0, "0.1.0")
    return ClusterStatus("demo", 1000.0, controller, (host,), tasks, tuple(jobs), tuple(problems))


@dataclass
class FakeLauncher:
    """Stands in for `dtfctl.launcher.api`. `calls` are the calls in order; `error` is raised by every one, if set."""

    state: ClusterStatus | None = None
    items: Sequence[JobItem | BaseException] = ()
    lines: Sequence[LogLine] = ()
    happened: Sequence[Event] = ()
    up_result: api.UpResult | None = None
    down_problems: tuple[str, ...] = ()
    down_waits: Sequence[Sequence[str]] = ()
    """What `down` says that it waits for."""
    stays: tuple[str, ...] = ()
    """Tasks of a drained host for which there is no other."""
    error: BaseException | None = None
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    specs: list[ClusterSpec] = field(default_factory=list)
    requests: list[JobRequest] = field(default_factory=list)

    def clusters(self) -> list[ClusterInfo]:
        return [ClusterInfo("demo", 1000.0, "/home/me/demo", True, "me@laptop")] if self.state else []

    def cluster_names(self) -> list[str]:
        return [item.name for item in self.clusters()]

    def names_of(self, cluster: str | None) -> Names:
        self.note("names_of", cluster)
        state = self.state
        if state is None or cluster not in (None, state.name):
            raise NoSuchCluster(f"no cluster {cluster or ''} is up", "`dtfctl up FILE` starts one.")
        return Names(
            tuple(task.name for task in state.tasks),
            tuple(host.name for host in state.hosts),
            tuple(job.id for job in state.jobs),
            tuple(job.id for job in state.jobs if not job.is_final),
        )

    @property
    def Cluster(self) -> type[api.Cluster]:
        fake = self

        class FakeCluster(api.Cluster):
            @classmethod
            def up(cls, spec: ClusterSpec, **options: Any) -> api.UpResult:
                fake.note("up", spec.cluster, options["dry_run"])
                fake.specs.append(spec)
                for event in fake.happened:
                    if options.get("on_event"):
                        options["on_event"](event)
                if options.get("on_hosts") and fake.state is not None:
                    options["on_hosts"](fake.state.hosts)
                assert fake.up_result is not None
                return fake.up_result

            def drain(self, hosts: Sequence[str], *, reason: str = "") -> tuple[str, ...]:
                fake.note("drain", tuple(hosts), reason)
                return tuple(hosts)

            def wait_drained(
                self,
                hosts: Sequence[str],
                tasks: Sequence[str],
                *,
                wait_s: float = 60.0,
                on_wait: Callable[[Sequence[str]], None] = lambda _: None,
            ) -> tuple[str, ...]:
                fake.note("wait_drained", tuple(hosts), tuple(tasks))
                on_wait(tasks)
                return fake.stays

            @classmethod
            def open(cls, name: str | None = None) -> api.Cluster:
                fake.note("open", name)
                if fake.state is None or name not in (None, fake.state.name):
                    raise NoSuchCluster(f"no cluster {name or ''} is up", "`dtfctl up FILE` starts one.")
                return cls(fake.state.name)

            @classmethod
            def down_by_name(
                cls,
                name: str | None = None,
                *,
                grace_s: float = 10.0,
                force: bool = False,
                keep_logs: bool = True,
                on_wait: Callable[[Sequence[str]], None] = lambda _: None,
            ) -> tuple[str, tuple[str, ...]]:
                fake.note("down", name, grace_s)
                for names in fake.down_waits:
                    on_wait(names)
                return name or "demo", fake.down_problems

            @property
            def owner(self) -> str:
                return "me@laptop"

            def status(self) -> ClusterStatus:
                fake.note("status")
                assert fake.state is not None
                return fake.state

            def submit(self, request: JobRequest, tell: Callable[[str], None] = lambda _text: None) -> str:
                fake.note("submit", request.script, request.args)
                fake.requests.append(request)
                return "digits-1"

            def jobs(self) -> list[JobStatus]:
                fake.note("jobs")
                assert fake.state is not None
                return list(fake.state.jobs)

            def job(self, job_id: str) -> JobStatus:
                for job in fake.state.jobs if fake.state else ():
                    if job.id == job_id:
                        return job
                raise NoSuchJob(f"no job {job_id} in cluster demo", "`dtfctl jobs` lists them.")

            def cancel(self, job_ids: Sequence[str] | None, *, grace_s: float = 10.0) -> list[JobStatus]:
                fake.note("cancel", None if job_ids is None else tuple(job_ids), grace_s)
                if job_ids is None:
                    job_ids = [job.id for job in fake.state.jobs if not job.is_final] if fake.state else []
                return [replace(self.job(job_id), state="cancelled") for job_id in job_ids]

            def scale(self, counts: Mapping[str, int], *, wait_s: float = 60.0) -> tuple[str, ...]:
                fake.note("scale", dict(counts))
                return tuple(f"start {name} on localhost" for name in counts)

            def restart(self, selector: str, *, wait_s: float = 30.0, grace_s: float = 10.0) -> RestartResult:
                fake.note("restart", selector, wait_s)
                return RestartResult(
                    tuple(found.name for found in select(selector, fake.state.tasks if fake.state else ()))
                )

            stop = restart  # type: ignore[assignment]

            def logs(self, selector: str = "all", **options: Any) -> Iterator[LogLine]:
                fake.note("logs", selector, options)
                yield from fake.lines

            def follow_job(self, job_id: str) -> Iterator[JobItem]:
                fake.note("follow", job_id)
                for item in fake.items:
                    if isinstance(item, BaseException):
                        raise item
                    yield item

            def events(self, *, follow: bool = False, since: float | None = None) -> Iterator[Event]:
                fake.note("events", follow, since is not None)
                yield from fake.happened

        return FakeCluster

    def note(self, *call: Any) -> None:
        """Remember a call, or fail it."""
        self.calls.append(call)
        if isinstance(self.error, (LauncherError, BaseException)):
            raise self.error
