"""All that is stored about a job; its life is in `job_lifecycle.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from dtfctl.health.restart import RestartHistory
from dtfctl.launcher.controller.state import frameworks
from dtfctl.launcher.controller.state.frameworks import Member
from dtfctl.launcher.messages.orders import JobNeeds, key_of
from dtfctl.launcher.model import TERMINAL_JOB_STATES, ClientStatus, JobRequest, JobState


@dataclass(frozen=True, slots=True)
class Clock:
    """A moment by a clock that nobody sets: seconds since the machine started, and which start that was."""

    boot: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Ending:
    """The outcome of a job whose processes have not all ended yet."""

    state: Literal["succeeded", "failed", "cancelled"]
    exit_code: int
    reason: str = ""
    may_retry: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """A task of the cluster that a job has got, and what the job calls it."""

    name: str
    task: str
    runs: bool = True
    """A process of the job runs beside it."""

    @property
    def role(self) -> str:
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """All that is stored about a job. Times are wall-clock."""

    id: str
    request: JobRequest
    script: str
    """The shipped copy."""
    folder: str
    checkpoint_dir: str
    submitted: float
    uid: str = ""
    """The identity of this very job: its id may have been another job's in an earlier cluster of this name."""
    script_sha256: str = ""
    needs: JobNeeds = field(default_factory=JobNeeds)
    state: JobState = "queued"
    seq: int = 0
    started: float | None = None
    started_clock: Clock | None = None
    ended: float | None = None
    exit_code: int | None = None
    reason: str = ""
    placed: tuple[Placed, ...] = ()
    """The tasks that the job has got of the cluster, the chief's first; set when it starts."""
    ran_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The hosts that each process may have run on, in order: what it wrote lies there."""
    starts: Mapping[str, int] = field(default_factory=dict)
    """How often each process has been started, on whatever hosts, as far as is known."""
    generation: int = 1
    released: bool = False
    """Whether the processes of this generation may run."""
    released_at: float | None = None
    members: tuple[Member, ...] = ()
    """The processes as they were released, where they have ports."""
    not_before: float | None = None
    retries_used: int = 0
    history: RestartHistory = field(default_factory=RestartHistory)
    """The restarts of the whole group that were no fault of the job."""
    why_again: str = ""
    ending: Ending | None = None
    chief_ended: float | None = None
    """The time when the chief had succeeded, since when others have time to end by themselves."""
    ps_lives: Mapping[str, int] = field(default_factory=dict)
    """The lives of the cluster's ps tasks at that time: what they hold ends with them; the chief restores no more."""
    grace_s: float = 10.0
    clients: tuple[ClientStatus, ...] = ()
    """The processes as last seen; complete once the job is final."""

    @property
    def key(self) -> str:
        """The name of the job's folders."""
        return key_of(self.id, self.uid)

    @property
    def is_final(self) -> bool:
        return self.state in TERMINAL_JOB_STATES

    @property
    def is_active(self) -> bool:
        """Whether the job's processes run, or have to be ended."""
        return bool(self.placed) and not self.is_final

    def noting(self, places: Mapping[str, str]) -> JobRecord:
        """Note the hosts on which the job's processes are now (`places`: by task) among those it has had."""
        found = dict(self.ran_on)
        for placed in self.processes if self.released else ():
            host, had = places.get(placed.task, ""), found.get(placed.name, ())
            if host and host not in had:
                found[placed.name] = (*had, host)
        return self if found == self.ran_on else replace(self, ran_on=found)

    @property
    def processes(self) -> tuple[Placed, ...]:
        return tuple(placed for placed in self.placed if placed.runs)

    @property
    def taking_part(self) -> tuple[Placed, ...]:
        """The processes of this start: all, but for those that an elastic group does without."""
        if not (self.is_elastic and self.members):
            return self.processes
        names = {member.name for member in self.members}
        return tuple(placed for placed in self.processes if placed.name in names)

    @property
    def is_elastic(self) -> bool:
        """Whether the job may go on with fewer processes than it has."""
        return self.request.min_workers is not None

    def does_without(self, placed: Placed) -> bool:
        """Tell whether the job may go on without that process; where each starts again by itself, the chief stays."""
        if not self.is_elastic:
            return False
        return self.framework.restarts == "all" or (placed.role == "worker" and placed != self.processes[0])

    @property
    def framework(self) -> frameworks.Framework:
        return frameworks.of(self.request.framework)

    @property
    def restarts(self) -> int:
        """The restarts of single processes, and of all of them together, each of which counts once."""
        again = self.generation - 1
        single = sum(client.restarts for client in self.clients) - again * len(self.clients)
        return again + (max(0, single) if self.framework.restarts == "each" else 0)
