"""What the command line (through the Python API) says to the controller.

Streams are long polls with positions that the caller keeps, so that they survive a restart of the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from dtfctl.launcher.messages.orders import JobNeeds
from dtfctl.launcher.model import CertificateStatus, ClusterStatus, Event, JobRequest, JobStatus
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.values import field, value

TaskVerb: TypeAlias = Literal["restart", "stop", "start"]
HostVerb: TypeAlias = Literal["drain", "undrain", "release"]


@value
class Nothing:
    """A request that says all by its call."""


@value
class CertificatesRequest:
    """Which certificates are there?"""

    renew: bool = False
    """All of them, first."""


@value
class CertificatesReply:
    """The certificates of the cluster."""

    certificates: tuple[CertificateStatus, ...] = ()


@value
class ApplyRequest:
    """What the cluster is to be from now on."""

    spec: ClusterSpec
    task_command: tuple[str, ...] = ()
    dry_run: bool = False
    only: str = ""
    """A selector: leave all other tasks as they are."""
    prune: bool = False
    """Whether, with `only`, the others that the spec does not have are stopped as well."""


@value
class ApplyReply:
    """What that changes."""

    changes: tuple[str, ...] = ()
    event: int = 0
    """The newest event before this one was applied."""
    tasks: tuple[str, ...] = ()
    """The tasks that `only` means."""


@value
class StatusRequest:
    """How is the cluster?"""

    newer_than: int = 0
    """Wait for a change past this version ..."""
    wait_s: float = 0.0
    """... for so long."""


@value
class StatusReply:
    """How the cluster is."""

    status: ClusterStatus
    version: int = 0
    """The version, which grows with every change."""
    usable: bool = False
    """Whether at least `min` tasks of every group run."""
    settled: bool = False
    """Every task runs, or has failed for good."""


@value
class SubmitRequest:
    """A job."""

    request: JobRequest
    source: bytes = b""
    """The script."""
    sha256: str = ""
    """The hash of the script."""
    needs: JobNeeds = field(default_factory=JobNeeds)
    """What goes with the script; its files were sent before."""


@value
class SubmitReply:
    """The job that this made, or that it was already."""

    job_id: str
    existed: bool = False


@value
class JobsRequest:
    """How are these jobs?"""

    ids: tuple[str, ...] = ()
    """None: all."""
    newer_than: int = 0
    wait_s: float = 0.0


@value
class JobsReply:
    """How jobs are."""

    jobs: tuple[JobStatus, ...] = ()
    version: int = 0


@value
class CancelRequest:
    """End these jobs."""

    ids: tuple[str, ...] = ()
    grace_s: float = 0.0


@value
class DesireRequest:
    """Change what is wanted of tasks."""

    selector: str
    verb: TaskVerb
    grace_s: float = 0.0


@value
class DesireReply:
    """The tasks that are meant."""

    tasks: tuple[str, ...] = ()
    version: int = 0


@value
class ScaleRequest:
    """Have so many tasks of these jobs."""

    counts: Mapping[str, int] = field(default_factory=dict)
    dry_run: bool = False


@value
class DesireHostsRequest:
    """Change what is wanted of hosts."""

    hosts: tuple[str, ...]
    verb: HostVerb
    reason: str = ""


@value
class DesireHostsReply:
    """The hosts that were changed."""

    hosts: tuple[str, ...] = ()
    version: int = 0


@value
class OutputPosition:
    """Where a reader of a process's output is, on one of its hosts."""

    process: str
    host: str
    file: int = 0
    offset: int = 0
    """The place in the whole log, counting what rotation has deleted."""
    hold: bool = False
    """Read nothing more of it now: the caller has lines that it cannot give yet."""


@value
class LogsRequest:
    """What was written past these positions."""

    selector: str
    """Used for what `positions` do not name."""
    positions: tuple[OutputPosition, ...] = ()
    tail: int = 0
    wait_s: float = 0.0
    max_bytes: int = 0


@value
class OutputChunk:
    """What one process wrote, and where that ends."""

    next: OutputPosition
    data: bytes = b""
    at_end: bool = False


@value
class LogsReply:
    """What was written."""

    chunks: tuple[OutputChunk, ...] = ()
    final: bool = False
    """Nothing more will ever come: the job has ended and all of it was read."""
    unreachable: tuple[str, ...] = ()
    """Hosts that did not answer: what was written there is missing here."""
    ended: bool = False
    """The job has ended."""


@value
class EventsRequest:
    """What has happened?"""

    after: int = 0
    since: float = 0.0
    wait_s: float = 0.0
    limit: int = 0


@value
class EventsReply:
    """What has happened."""

    events: tuple[Event, ...] = ()
    newest: int = 0
    """There is nothing between the last of these and this number."""


@value
class DownRequest:
    """Take the cluster down."""

    grace_s: float = 0.0
    force: bool = False
    """Give up hosts that cannot be reached."""
    delete_logs: bool = False


@value
class DownReply:
    """What is left of the cluster, one sentence each."""

    problems: tuple[str, ...] = ()


@value
class SpecReply:
    """What the cluster is to be."""

    spec: ClusterSpec
