"""What the controller wants of a host.

Orders are the whole desired state of a host, so applying them twice, or after a crash, does nothing new. Times are
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from dtfctl.health.monitor import HealthLimits
from dtfctl.health.restart import RestartPolicy
from dtfctl.values import field, value

GpuView: TypeAlias = Literal["none", "own", "host"]
"""Which GPUs a process of a job sees: what it inherits, those of its slot, or those of all the job's slots on its
host."""

RETRYABLE_EXIT = 75
"""A job's process that ends with this (EX_TEMPFAIL of sysexits.h) asks to be started again."""
ADDRESS_IN_USE_EXIT = 98
"""A task that ends with this (errno EADDRINUSE) found its port taken: the agent picks another."""


@value
class LogRules:
    rotate_bytes: int = 64 * 2**20
    keep: int = 3
    bytes_per_s: int = 10 * 2**20
    folder: str = ""
    """Where logs go; empty: the agent's own folder. `~` is the home on the agent's host."""


@value
class TaskOrder:
    job: str
    index: int
    run: bool = True
    incarnation_floor: int = 0
    """The next start gets a higher number than this and than every one the agent knows."""
    starts_floor: int = 0
    """How often it has been started, on any host; the agent counts on from the higher of this and what it knows."""
    restart_request: int = 0
    """The number of the user's restarts; a higher one than the one handled means one more."""
    env: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0
    memory_bytes: int = 0
    first_port: int = 0
    """0: any free port."""
    last_port: int = 0
    grace_s: float = 10.0
    now: bool = False
    """Do not restart gently: SIGKILL at once."""
    earlier_failures: int = 0
    """Failures on other hosts that count for the restart policy's limit."""
    earlier_hosts: int = 0
    """The number of hosts on which those were."""

    @property
    def name(self) -> str:
        return f"{self.job}/{self.index}"


def job_process(name: str) -> tuple[str, str] | None:
    """Split the name of a job's process (`job:ID:worker/0`, or its log's `job:KEY:worker/0`); None: it names no such.

    >>> job_process("job:digits-1:worker/0"), job_process("worker/0")
    (('digits-1', 'worker/0'), None)
    """
    kind, _, rest = name.partition(":")
    job, _, task = rest.partition(":")
    return (job, task) if kind == "job" else None


def job_scope(job_id: str, view: Mapping[str, str]) -> str:
    """Write whose state sessions see, and the tasks that stand for their names: all, if there are none.

    `runtime.services.job_scope` reads it, on the tasks' side.

    >>> job_scope("digits-1", {"worker/0": "worker/2", "ps/0": "ps/0"}), job_scope("digits-1", {})
    ('job=digits-1&tasks=ps/0=ps/0,worker/0=worker/2', 'job=digits-1')
    """
    pairs = ",".join(f"{name}={view[name]}" for name in sorted(view, key=task_order))
    return f"job={job_id}&tasks={pairs}" if pairs else f"job={job_id}"


def task_order(name: str) -> tuple[str, int]:
    """Sort the names of tasks by job, and by number within it."""
    job, _, index = name.partition("/")
    return job, int(index)


def key_of(job_id: str, uid: str) -> str:
    """Make the name of a job's folders: no other job has them, were its id the same."""
    return f"{job_id}.{uid}" if uid else job_id


@value
class Wheel:
    """A package that was sent with a job."""

    name: str
    """The file's name: `numpy-2.3.1-cp311-cp311-linux_x86_64.whl`."""
    sha256: str
    own: bool = False
    """The requirements name this very file, by its path."""
    kind: str = ""
    """The kind of Pythons that the wheel is for (`packages.kind_of`); empty: any."""


@value
class Packages:
    """What a job's Python has to have. Every part may be empty."""

    lines: tuple[str, ...] = ()
    """Requirements, without the paths of wheels: `numpy>=2`."""
    constraints: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """The options of a requirements file, such as `--index-url URL`. They may hold passwords."""
    requires_python: str = ""
    wheels: tuple[Wheel, ...] = ()
    complete: bool = False
    """Nothing but these wheels is needed: no index is asked."""

    @property
    def is_empty(self) -> bool:
        return not (self.lines or self.requires_python or self.wheels)


@value
class JobNeeds:
    """What goes with a job's script; files by their hashes, which are sent apart."""

    tree_sha256: str = ""
    """The working folder, as an archive; empty: there is none."""
    program: str = ""
    """The script's path in that folder; empty: it lies elsewhere."""
    packages: Packages = field(default_factory=Packages)

    @property
    def is_empty(self) -> bool:
        return not self.tree_sha256 and self.packages.is_empty

    @property
    def files(self) -> tuple[str, ...]:
        """The hashes of all that is sent for it."""
        wheels = (wheel.sha256 for wheel in self.packages.wheels)
        return tuple(dict.fromkeys(name for name in (self.tree_sha256, *wheels) if name))


@value
class ClientOrder:
    """One process of a job: `job/index` within the job, beside the task `slot` of the cluster."""

    job_id: str
    job: str
    index: int
    slot: str = ""
    generation: int = 1
    """Counts the starts of the whole job. A process of an older one is ended; with `run` false the host gets ready
    for this one: nothing of the old runs any more, and ports are chosen."""
    starts_floor: int = 0
    """How often it has been started, on any host; the agent counts on from the higher of this and what it knows."""
    run: bool = True
    chief: bool = False
    command: tuple[str, ...] = ()
    """What runs the script: an interpreter, where an empty first word is the agent's own Python; may be empty."""
    script: str = ""
    """The script's file name; its content was sent before, by `script_sha256`."""
    script_sha256: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str = ""
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    grace_s: float = 10.0
    ports: int = 0
    """The number of ports that the process is to have, new ones for every generation."""
    first_port: int = 0
    last_port: int = 0
    needs_task: bool = True
    """Whether the process starts only while its slot's task runs."""
    gpus: GpuView = "none"
    view: Mapping[str, str] = field(default_factory=dict)
    """The cluster as the job sees it: its own names of tasks, and the tasks they stand for."""
    remapped: bool = False
    """`view` is not the whole cluster under its own names."""
    needs: JobNeeds = field(default_factory=JobNeeds)
    memory_bytes: int = 0
    """The most memory that the process may use; 0: no limit."""
    cpus: float = 0.0
    gpu_count: int | None = None
    """The number of GPUs that the process is to see; None: those of its slot, as `gpus` says."""
    job_uid: str = ""
    """The identity of the job, for good."""

    @property
    def key(self) -> str:
        """What the job's folders are called."""
        return key_of(self.job_id, self.job_uid)

    @property
    def log_name(self) -> str:
        """The name by which the log is asked for."""
        return f"job:{self.key}:{self.job}/{self.index}"

    @property
    def name(self) -> str:
        return f"job:{self.job_id}:{self.job}/{self.index}"


@value
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


@value
class Way:
    """What was measured of the way from this host to that of another task."""

    task: str
    bytes_s: float


@value
class FolderPeer:
    """Another host, and its agent; or the controller, where that keeps copies too."""

    host: str
    address: str
    """Empty: not known yet."""
    role: Literal["agent", "controller"] = "agent"


@value
class FolderOrder:
    """A job's checkpoint folder, which hosts that share no disk keep alike."""

    path: str
    job_id: str = ""
    hold: bool = False
    """All of it is to be here; else only what is written here is told to others."""
    peers: tuple[FolderPeer, ...] = ()
    gates: tuple[str, ...] = ()
    """Tasks that start here only when all of it is."""
    all_peers: bool = False
    """`peers` are all hosts that are not lost: what none of them has is nowhere."""


@value
class HostOrders:
    cluster: str = ""
    epoch: int = 0
    revision: int = 0
    tasks: tuple[TaskOrder, ...] = ()
    clients: tuple[ClientOrder, ...] = ()
    jobs: tuple[str, ...] = ()
    """Every job that has not ended. The tasks drop the state of one that is no longer here."""
    peers: tuple[Peer, ...] = ()
    expected: tuple[str, ...] = ()
    task_command: tuple[str, ...] = ()
    """An empty first word is the agent's own Python."""
    restart: RestartPolicy = field(default_factory=RestartPolicy)
    health: HealthLimits = field(default_factory=HealthLimits)
    logs: LogRules = field(default_factory=LogRules)
    tls: bool = True
    transport: str = "auto"
    """What carries tensors between tasks."""
    encrypt: bool = True
    """Tensors between hosts."""
    bad_host_log: tuple[str, ...] = ()
    """Regular expressions; a match in what a failed process wrote puts the blame on the host."""
    lease_s: float = 0.0
    """Without a word of the controller for so long, everything here is stopped; 0: never."""
    folders: tuple[FolderOrder, ...] = ()
    rack: str = ""
    """Where the host stands; empty where the spec does not say."""
    ways: tuple[Way, ...] = ()
    save: int = 0
    """Grows each time that jobs are to save at once, as their hosts are about to be taken away."""
    base: int = 0
    """The revision that `peers` has the changes since, all else being as it was there; 0: the orders are whole."""
