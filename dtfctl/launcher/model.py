"""What the launcher tells its users: tasks, hosts, jobs, events and output, as frozen values.

Times: `*_s` are seconds; `time` fields are seconds since the epoch by the wall clock of the host that saw it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from dtfctl.figures import TaskFigures
from dtfctl.values import field, value

TaskState: TypeAlias = Literal[
    "pending", "starting", "running", "stopping", "done", "failed", "crashed", "stopped", "lost"
]
"""`crashed`: the restart policy gave up. `lost`: its host is gone, the outcome is unknown."""
ALIVE: frozenset[TaskState] = frozenset({"starting", "running", "stopping"})
"""The states in which a task has a process."""
GAVE_UP: frozenset[TaskState] = frozenset({"done", "failed", "crashed"})
"""The states of a task that ended and starts again only when a person asks for it."""
SETTLED: frozenset[TaskState] = frozenset({"running", "failed", "crashed", "stopped", "done", "lost"})
"""States that last."""
RESTARTED = "restarted on request"
"""Why a task ended that was asked to start again."""
TaskHealth: TypeAlias = Literal["unknown", "healthy", "suspect", "down"]
HostState: TypeAlias = Literal["pending", "up", "suspect", "down", "quarantined", "drained"]
JobState: TypeAlias = Literal["queued", "running", "recovering", "succeeded", "failed", "cancelled"]
Replication: TypeAlias = Literal["between-graph", "in-graph", "elastic"]
Framework: TypeAlias = Literal["dtf", "tensorflow", "torch", "jax", "command"]

Success: TypeAlias = Literal["all", "chief"]
"""The processes whose exit code 0 makes a job succeed: all of them (a ps never ends), or the chief alone."""
TfConfig: TypeAlias = Literal["full", "sparse"]

PackageSource: TypeAlias = Literal["auto", "ship", "fetch"]
"""Where hosts get a job's packages from: an index where they reach one, else this machine; this machine; an index."""

TERMINAL_JOB_STATES: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})


@value
class Progress:
    """How far a loop is: the newest line of a job's progress, or a task's count of executed steps."""

    step: int = 0
    total: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    time: float = 0.0


@value
class TaskLink:
    """How a task sends tensors to another one now."""

    peer: str
    """The other task, such as `ps/0`."""
    transport: str
    """`shm`, `unix`, `tcp` or `grpc`."""
    encrypted: bool
    bytes_s: float = 0.0
    """What the newest long transfers were carried at, in bytes a second; 0 where none has been measured."""
    samples: int = 0
    """How many transfers have been measured."""
    codecs: str = ""
    """Which codecs are on or off on this way, and why; empty where none is in use."""


@value
class TaskStatus:
    """One task of the cluster."""

    job: str
    index: int
    state: TaskState
    health: TaskHealth = "unknown"
    host: str = ""
    pid: int | None = None
    address: str = ""
    incarnation: int = 0
    restarts: int = 0
    uptime_s: float | None = None
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    steps: int = 0
    """Graph executions since it started."""
    spared_bytes: int = 0
    """The bytes that compression has kept off the network, of what it sent since it started."""
    transport: str = ""
    """The way that tensors go to the tasks linked now: `shm`, `tcp`, `grpc` or several joined by `+`."""
    blas: str = ""
    """The kernels OpenBLAS runs in it and its threads, such as `SkylakeX x2`; empty for any other BLAS."""
    silence_s: float | None = None
    """Seconds since its newest beat, while it runs."""
    retry_in_s: float | None = None
    """Seconds until the next try, while it waits for one."""
    exit_code: int | None = None
    """The exit code of the newest ended incarnation; 128 + signal number when a signal ended it."""
    last_error: str = ""
    """Why it ended or does not start, for people; empty when all is well."""
    last_lines: tuple[str, ...] = ()
    """The last lines of stderr of a task that failed (at most 20)."""
    faults: int = 0
    """The number of errors that the task's loops and threads have raised, and went on after."""
    links: tuple[TaskLink, ...] = ()
    """One for each task that it is linked to; of many the first 128."""
    figures: TaskFigures = field(default_factory=TaskFigures)
    """What its runtime has counted."""

    @property
    def name(self) -> str:
        return f"{self.job}/{self.index}"


@value
class HostStatus:
    """One host and its agent."""

    name: str
    state: HostState
    agent_pid: int | None = None
    agent_address: str = ""
    cores: int | None = None
    load: float | None = None
    """One-minute load average."""
    memory_bytes: int | None = None
    memory_free_bytes: int | None = None
    disk_free_bytes: int | None = None
    gpus: int = 0
    tasks: int = 0
    last_error: str = ""
    cause: str = ""
    """Why the host cannot be used: auth, host-key, unreachable, python, disk, install, sync, setup or agent."""
    where: str = ""
    """The place that shows it, such as known_hosts:81."""
    stage: str = ""
    """What is being done to the host before its agent runs: connecting, installing, syncing, setup or starting."""
    note: str = ""
    """Why it is drained or quarantined."""
    through: str = ""
    """The way that the controller calls the agent: `SSH over bastion`; empty: directly."""
    faults: int = 0
    """The number of errors that the agent's loops and threads have raised, and went on after."""
    node: str = ""
    """The machine's own name, where who lends the host has named it."""


@value
class GrantStatus:
    """What the hosts are lent by, for a time: an allocation of a batch system."""

    state: Literal["queued", "granted", "ended"]
    what: str
    """What one calls it: `Slurm job 17`."""
    why: str = ""
    """What a queued one waits for, how one has ended."""
    ends: float | None = None
    """The time at which the hosts are taken back, in seconds since the epoch; None: not known, or never."""
    starts: float | None = None
    """The time at which a queued one is expected to begin."""


@value
class ClientStatus:
    """One process of a job."""

    name: str
    """The process's name within the job: `worker/0`, numbered from 0 whatever tasks the job has got."""
    host: str
    state: TaskState
    pid: int | None = None
    exit_code: int | None = None
    restarts: int = 0
    last_error: str = ""
    last_lines: tuple[str, ...] = ()
    progress: Progress | None = None
    task: str = ""
    """The task of the cluster beside which it runs."""
    address: str = ""
    """The place where it listens, or its group meets (torch, jax: the chief's), where its framework asks for a port."""
    rss_bytes: int | None = None
    limits: str = ""
    """The way that limits are held on the host: `memory 200 MiB (control group), cpus 2 (cores 0,1)`."""


@value
class JobStatus:
    """One submitted script."""

    id: str
    name: str
    state: JobState
    replication: Replication
    script: str
    args: tuple[str, ...] = ()
    submitted: float = 0.0
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    reason: str = ""
    """Why it failed, waits or recovers; empty when all is well."""
    restarts: int = 0
    checkpoint_dir: str = ""
    position: int | None = None
    """Place in the queue, from 1, while queued."""
    clients: tuple[ClientStatus, ...] = ()
    progress: Progress | None = None
    """The chief's progress."""
    framework: Framework = "dtf"
    priority: int = 0
    tasks: tuple[str, ...] = ()
    """The tasks of the cluster that it has to itself (or shares), while and since it runs."""
    checkpoint: str = ""
    """The newest that is whole on as many hosts as the file wants; empty: none yet, or nothing is copied."""
    checkpoint_hosts: tuple[str, ...] = ()
    """The hosts that have the newest whole checkpoint."""
    starts: int = 0
    """How often all of its processes were started together: 1 unless it was retried, or restarted as a group."""
    cpus: float | None = None
    """What each of its processes may use, as it was submitted; None: nothing was said."""
    memory: int | None = None
    gpus: int | None = None

    @property
    def is_final(self) -> bool:
        return self.state in TERMINAL_JOB_STATES


@value
class ControllerStatus:
    pid: int
    address: str
    epoch: int
    """How often a controller of this cluster has started."""
    uptime_s: float
    version: str


@value
class LinkStatus:
    """What one host can say to another, as it was when `dtfctl doctor --links` measured it last."""

    source: str
    target: str
    round_trip_s: float = 0.0
    """The median of small calls from one agent to the other."""
    bytes_s: float = 0.0
    """What one encrypted connection of their agents carries from `source` to `target` in a second."""
    measured: float = 0.0
    problem: str = ""
    """Why nothing could be measured."""


@value
class ClusterStatus:
    """Everything `status` shows."""

    name: str
    created: float
    controller: ControllerStatus
    hosts: tuple[HostStatus, ...]
    tasks: tuple[TaskStatus, ...]
    jobs: tuple[JobStatus, ...]
    problems: tuple[str, ...]
    """One sentence each; empty when all is well."""
    notes: tuple[str, ...] = ()
    """What a person is to know although all is well: until the next `up`."""
    links: tuple[LinkStatus, ...] = ()
    """Each pair of hosts whose link was measured."""
    advice: tuple[str, ...] = ()
    """What steps have spent too much of their time on for a while, and what to do about it; one sentence each."""
    grant: GrantStatus | None = None
    """What the hosts are lent by; None: nobody lends them."""

    @property
    def running(self) -> int:
        """Tasks that run and are not given up by the health monitor."""
        return sum(task.state == "running" and task.health != "down" for task in self.tasks)

    @property
    def healthy(self) -> bool:
        return not self.problems and bool(self.tasks) and self.running == len(self.tasks)


@value
class Event:
    """Something that happened, in the order of `seq`, which has no gaps."""

    seq: int
    time: float
    kind: str
    """A dotted word: `task.running`, `task.failed`, `job.queued`, `host.down`, `controller.started`."""
    subject: str
    """What it happened to: `worker/1`, `job:digits-1`, `host:localhost`, `controller`, `cluster`."""
    reason: str = ""
    incarnation: int = 0


@value
class LogLine:
    """Output of one process; `text` keeps carriage returns but not the newline."""

    source: str
    """`worker/1`, or `digits-1:worker/0` for a job's process."""
    stream: Literal["out", "err"]
    text: str
    time: float
    newline: bool = True
    """False for a part of a line that goes on in the next item (a prompt or progress bar)."""


@value
class JobOutput:
    """A job's process wrote something."""

    line: LogLine


@value
class JobProgress:
    """A job's process reported progress."""

    source: str
    progress: Progress
    chief: bool


@value
class JobNote:
    """A job's process said something that is to be known: from where its training goes on, or why it begins again."""

    text: str
    """`worker/0: begins again at step 0; ...`."""


@value
class JobChanged:
    """The job went into another state that is not final (`running`, `recovering`), or waits for something else."""

    status: JobStatus


@value
class JobEnded:
    """The last item of every complete stream; `status.exit_code` is the command's."""

    status: JobStatus
    lost_output: tuple[str, ...] = ()
    """Hosts that no longer answer: the last of what the job wrote there is missing from the stream."""


JobItem: TypeAlias = JobOutput | JobProgress | JobNote | JobChanged | JobEnded


@value
class CertificateStatus:
    """A certificate of a cluster."""

    name: str
    """`ca`, `controller`, `cli`, `metrics`, `agent-HOST`, `task-JOB-INDEX`; empty where the host has not said."""
    host: str
    """The host that has the certificate; empty: the machine of the controller."""
    until: float
    """The end of the certificate, in seconds since the epoch."""
    problem: str = ""
    """Why it was not renewed."""


@value
class JobRequest:
    """What `submit` sends."""

    script: str
    """A path on this machine."""
    args: tuple[str, ...] = ()
    name: str | None = None
    """Default: the script's file name without `.py`."""
    env: Mapping[str, str] = field(default_factory=dict)
    replication: Replication = "between-graph"
    id: str | None = None
    """The job's; default: its name with a number. Submitting the same script under it again is the same job."""
    submission_id: str | None = None
    """A call that is sent twice, as its answer was lost, makes one job; default: a new one each time."""
    framework: Framework = "dtf"
    retries: int = 0
    """How often the whole job is started again, from its newest checkpoint, when it has failed by itself."""
    resume: str | None = None
    """The id of an earlier job whose checkpoints this one goes on from."""
    cwd: str | None = None
    """Default: the caller's working directory."""
    priority: int = 0
    """Higher goes first; equals in the order of submission."""
    max_time_s: float | None = None
    """The most seconds from the job's first start to its end; time between tries counts."""
    tasks: str | None = None
    """A selector of the tasks it is to have: `worker/0-3`."""
    workers: int | None = None
    """The number of workers for the job, whichever are free. With neither: all of the cluster's."""
    min_workers: int | None = None
    """The fewest processes with which a group (torch, jax) goes on when hosts are lost. Default: all of them."""
    share: bool = False
    """Whether the job may run on tasks that other sharing jobs have too."""
    python: str | None = None
    """The interpreter on the hosts; default: the spec's."""
    success: Success | None = None
    """The processes whose exit code 0 is needed. Default: the file's `jobs: {success}`, or the framework's."""
    exit_code_from: str | None = None
    """`chief` or a process of the job (`worker/1`): its exit code becomes the job's. Default: that of the first that
    failed."""
    tf_config: TfConfig = "full"
    working_dir: str | None = None
    """A folder that goes with the script and is its working directory on every host."""
    requirements: tuple[str, ...] = ()
    """What the script's Python has to have: requirements files, or requirements such as `scikit-learn>=1.4`; beside
    those in the script's own metadata (PEP 723)."""
    extras: tuple[str, ...] = ()
    """Extras of dtfctl: `examples`, `fast`."""
    packages: PackageSource = "auto"
    cpus: float | None = None
    """What each of its processes may use: processors, and parts of one."""
    memory: int | None = None
    """Bytes; default: the `memory` of the task beside it. 0: no limit."""
    gpus: int | None = None
    """How many GPUs each of its processes sees; default: those of the task beside it."""


@value
class RestartResult:
    """What `restart` did."""

    tasks: tuple[str, ...]
    """`job/index` of every task that was told to restart."""


@value
class ClusterInfo:
    """A cluster on disk, for `dtfctl clusters` and the choice of the default."""

    name: str
    created: float
    folder: str
    alive: bool
    """Whether its controller runs now."""
    owner: str = ""
    """The user who brought the cluster up, and on which machine: `user@machine`; empty: not known."""
