"""What controller and agent tell each other; the messages of protocol/agent.proto as values.

Orders are the whole desired state of a host, so applying them twice, or after a crash, does nothing new. Times are
seconds, `time` is wall-clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dtfctl.health.monitor import HealthLimits
from dtfctl.health.restart import RestartPolicy
from dtfctl.launcher.model import Progress, TaskHealth, TaskState

RETRYABLE_EXIT = 75
"""A job's process that ends with this (EX_TEMPFAIL of sysexits.h) asks to be started again."""
ADDRESS_IN_USE_EXIT = 98
"""A task that ends with this (errno EADDRINUSE) found its port taken: the agent picks another."""


@dataclass(frozen=True, slots=True)
class LogRules:
    rotate_bytes: int = 64 * 2**20
    keep: int = 3
    bytes_per_s: int = 10 * 2**20
    folder: str = ""
    """Where logs go; empty: the agent's own folder."""


@dataclass(frozen=True, slots=True)
class TaskOrder:
    job: str
    index: int
    run: bool = True
    incarnation_floor: int = 0
    """The next start gets a higher number than this and than every one the agent knows."""
    restart_request: int = 0
    """Counts the user's restarts; a higher number than the one handled means one more."""
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0
    memory_bytes: int = 0
    first_port: int = 0
    """0: any free port."""
    last_port: int = 0
    grace_s: float = 10.0
    now: bool = False
    """Do not restart gently: SIGKILL at once."""

    @property
    def name(self) -> str:
        return f"{self.job}/{self.index}"


@dataclass(frozen=True, slots=True)
class ClientOrder:
    """One process of a job, beside task `job/index`."""

    job_id: str
    job: str
    index: int
    run: bool = True
    chief: bool = False
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    grace_s: float = 10.0

    @property
    def name(self) -> str:
        return f"job:{self.job_id}:{self.job}/{self.index}"


@dataclass(frozen=True, slots=True)
class Peer:
    """A task of another host."""

    job: str
    index: int
    address: str
    incarnation: int = 0
    up: bool = False
    reason: str = ""

    @property
    def name(self) -> str:
        return f"{self.job}/{self.index}"


@dataclass(frozen=True, slots=True)
class HostOrders:
    cluster: str = ""
    epoch: int = 0
    revision: int = 0
    tasks: tuple[TaskOrder, ...] = ()
    clients: tuple[ClientOrder, ...] = ()
    peers: tuple[Peer, ...] = ()
    expected: tuple[str, ...] = ()
    task_command: tuple[str, ...] = ()
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    health: HealthLimits = field(default_factory=HealthLimits)
    logs: LogRules = field(default_factory=LogRules)
    tls_folder: str = ""


@dataclass(frozen=True, slots=True)
class TaskReport:
    job: str
    index: int
    state: TaskState
    health: TaskHealth = "unknown"
    pid: int | None = None
    address: str = ""
    incarnation: int = 0
    restarts: int = 0
    uptime_s: float | None = None
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    steps: int = 0
    retry_in_s: float | None = None
    exit_code: int | None = None
    last_error: str = ""
    last_lines: tuple[str, ...] = ()
    restart_handled: int = 0

    @property
    def name(self) -> str:
        return f"{self.job}/{self.index}"


@dataclass(frozen=True, slots=True)
class ClientReport:
    job_id: str
    job: str
    index: int
    state: TaskState
    pid: int | None = None
    exit_code: int | None = None
    restarts: int = 0
    last_error: str = ""
    last_lines: tuple[str, ...] = ()
    progress: Progress | None = None

    @property
    def name(self) -> str:
        return f"{self.job}/{self.index}"


@dataclass(frozen=True, slots=True)
class Happening:
    """A change that the agent saw; the controller makes it an event. `number` counts up within one agent's life."""

    number: int
    time: float
    kind: str
    subject: str
    reason: str = ""
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The whole observed state of a host."""

    host: str
    boot: str = ""
    pid: int = 0
    revision: int = 0
    epoch: int = 0
    tasks: tuple[TaskReport, ...] = ()
    clients: tuple[ClientReport, ...] = ()
    happenings: tuple[Happening, ...] = ()
    cores: int = 0
    load: float = 0.0
    memory_bytes: int = 0
    memory_free_bytes: int = 0
    disk_free_bytes: int = 0
    gpus: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Where a reader of a process's log is. `file` is an inode, 0 before the first read."""

    process: str
    file: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class LogChunk:
    next: LogPosition
    data: bytes = b""
    at_end: bool = True
