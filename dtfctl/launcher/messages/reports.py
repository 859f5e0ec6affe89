"""What the agent tells of its host. Times are seconds, `time` is wall-clock."""

from __future__ import annotations

from dtfctl.launcher.model import Progress, TaskState, TaskStatus
from dtfctl.values import value


@value
class FolderReport:
    """How much of a job's checkpoint folder a host has."""

    path: str
    whole: tuple[str, ...] = ()
    """The newest checkpoints that are whole here, oldest first."""
    in_step: bool = False
    """All that others have is here."""
    files: int = 0
    bytes: int = 0
    problem: str = ""


@value
class TaskReport:
    """What a task is like, and what of its orders and of the others concerns only the controller."""

    status: TaskStatus
    """Without its host: where it runs is the controller's word."""
    restart_handled: int = 0
    unreachable: tuple[str, ...] = ()
    """Tasks that it works with and that do not answer it."""

    @property
    def name(self) -> str:
        return self.status.name


@value
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
    generation: int = 0
    """The generation of the job to which the newest start belongs; 0: it has not been started."""
    held: int = 0
    """The generation of the order that the host has. `addresses` are of that one."""
    addresses: tuple[str, ...] = ()
    rss_bytes: int | None = None
    limits: str = ""
    """The way in which the limits are held, for people."""
    out_of_memory: bool = False
    """Whether the memory limit caused the newest end."""
    idle_s: float | None = None
    """How long it had done nothing when that was as long as it may be; None: it works, or tells how far it is."""

    @property
    def name(self) -> str:
        return f"{self.job}/{self.index}"


@value
class Happening:
    """A change that the agent saw; the controller makes it an event. `number` counts up within one agent's life."""

    number: int
    time: float
    kind: str
    subject: str
    reason: str = ""
    incarnation: int = 0
    failure: bool = False
    """A task ended by itself, or had to be killed."""


@value
class Report:
    """The whole observed state of a host; or, when `partial`, the tasks and processes that changed."""

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
    faults: int = 0
    """The number of errors that the agent's loops and threads have raised, and went on after."""
    address: str = ""
    """The agent's address, as other hosts reach it."""
    folders: tuple[FolderReport, ...] = ()
    partial: bool = False


@value
class LogPosition:
    """Where a reader of a process's log is. `file` is an inode, 0 before the first read."""

    process: str
    file: int = 0
    offset: int = 0


@value
class LogChunk:
    next: LogPosition
    data: bytes = b""
    at_end: bool = True
