"""A cluster spec as frozen dataclasses.

Every field is one key of the YAML file and carries its kind, help and example; see `kinds.py`. Times are seconds,
sizes bytes, percentages fractions. Nothing here reads a file: `load.py` does.

>>> spec = parse_spec("cluster: dev\\ntasks: {ps: 1, worker: 2}\\n")
>>> spec.tasks["worker"].count, [host.name for host in spec.hosts]
(2, ['localhost'])
"""
# ruff: noqa: RUF009  (`option` makes the dataclass field itself)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from dtfctl.launcher.spec.exchange import Runtime
from dtfctl.launcher.spec.kinds import (
    Choice,
    Duration,
    Either,
    Flag,
    HostBlock,
    HostNames,
    Integer,
    ListOf,
    MapOf,
    Number,
    PortRange,
    Seconds,
    Size,
    Table,
    Text,
    option,
)
from dtfctl.launcher.spec.lent import Ray as Ray, Slurm as Slurm
from dtfctl.launcher.spec.places import (
    ControllerPlace as ControllerPlace,
    Dashboard as Dashboard,
    Logs as Logs,
    Metrics as Metrics,
)
from dtfctl.launcher.spec.restarts import (
    BadHostWhen as BadHostWhen,
    Delay as Delay,
    NeverWhen as NeverWhen,
    Restart as Restart,
)

Bytes: TypeAlias = int

FORMAT_VERSION = 1
DEFAULT_GROUP = "all"
"""The name of the host group that a bare `hosts: node[1-4]` makes."""
LENDERS = ("slurm", "ray")
"""The providers that lend hosts. The host group of what one lends has its name, and hosts that with a number."""
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

JOB_NAMES = (
    ("ps", "Parameter servers: hold the variables."),
    ("worker", "Workers: compute."),
    ("chief", "The worker that also initialises and saves; without it worker 0 does."),
    ("evaluator", "Evaluates checkpoints beside the training."),
)
ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
GROUP_NAME = r"[A-Za-z][A-Za-z0-9_-]*"
CLUSTER_NAME = r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?"
HOST_FOLDER = r"~?(/[A-Za-z0-9_+@-][A-Za-z0-9._+@-]*|/\.[A-Za-z0-9_+@-][A-Za-z0-9._+@-]*)+"
"""Any shell leaves such a path as it is."""


@dataclass(frozen=True, slots=True)
class HostName:
    """One expanded name: the login user, if written, the host, and the value of each bracket in its pattern."""

    name: str
    user: str | None = None
    brackets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostGroup:
    """Hosts that are alike."""

    names: tuple[HostName, ...] = option(
        HostNames(),
        "Host names: ranges `r[1-4]g[01-24]`, commas, `!name` to leave one out, `user@` for the login.",
        '"alice@node[1-4]"',
    )
    slots: int | None = option(
        Integer(low=1),
        "How many tasks a host of this group takes.",
        "8",
        default=None,
        default_text="as many as are asked for",
    )
    gpus: int | Literal["auto"] = option(
        Either((Choice(("auto",)), Integer(low=0))),
        "GPUs of each host; `auto` asks the host.",
        "auto",
        default="auto",
    )
    rack: str | None = option(
        Text("a rack name; `{1}` is the value of the host pattern's first bracket"),
        "The rack each host stands in, for `spread` and collectives.",
        '"{1}"',
        default=None,
    )
    min: int | None = option(
        Integer(low=0, high=100_000),
        "With this many the cluster is usable: others may be away, come and go, and jobs go on with those that are "
        "there. Without `slots` each takes an even share of the workers.",
        "2",
        default=None,
        default_text="all of them",
    )
    spare: bool = option(
        Flag(),
        "Keep these hosts free until another host fails. Where no task's `hosts` names their group, they stand in for "
        "any host.",
        "true",
        default=False,
    )


@dataclass(frozen=True, slots=True)
class Host:
    """One host after expansion, with what its group says about it."""

    name: str
    group: str
    user: str | None
    slots: int | None
    gpus: int | Literal["auto"]
    rack: str | None
    spare: bool

    @property
    def is_local(self) -> bool:
        """Whether tasks run here without SSH."""
        return self.name in LOCAL_NAMES


@dataclass(frozen=True, slots=True)
class Ssh:
    """How to log in."""

    user: str | None = option(
        Text("a user name", r"[A-Za-z0-9_.][A-Za-z0-9_.-]*|\$\{[A-Za-z_][A-Za-z0-9_]*\}"),
        "Login name where the host pattern has none.",
        "train",
        default=None,
        default_text="~/.ssh/config, else yours",
    )
    key: str | None = option(
        Text("a path"),
        "Private key file.",
        "~/.ssh/train_ed25519",
        default=None,
        default_text="agent and ~/.ssh/config",
    )
    port: int = option(Integer(low=1, high=65535), "SSH port.", "22", default=22)
    jump: tuple[str, ...] = option(
        ListOf(Text("[user@]host[:port]")),
        "Jump host, or a list of them from the outside in.",
        "bastion.dc1",
        default=(),
    )
    known_hosts: str = option(
        Text("a path"), "Where host keys are looked up.", "./known_hosts", default="~/.ssh/known_hosts"
    )
    host_keys: Literal["strict", "pin"] = option(
        Choice(("strict", "pin")),
        "`strict` refuses unknown host keys; `pin` accepts one on the first `up`, then is strict.",
        "pin",
        default="strict",
    )
    parallel: int = option(Integer(low=1, high=1024), "Connections opened at a time.", "64", default=64)
    timeout: Seconds = option(Duration(), "Connect and login, per try.", "10s", default=10.0)
    retries: int = option(Integer(low=0, high=100), "Further tries after a failed one.", "2", default=2)


@dataclass(frozen=True, slots=True)
class Sync:
    """Files sent to every host when their content changed."""

    source: str = option(Text("a path"), "File or folder here, from the spec's folder.", "./ranker", name="from")
    to: str = option(Text("a path"), "Where it goes on the hosts.", '"~/ranker"')
    exclude: tuple[str, ...] = option(ListOf(Text("a glob")), "Names to leave out.", '["*.pyc", data/]', default=())


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The tasks of one job name."""

    count: int = option(Integer(low=0, high=100_000), "How many.", "8", default=1)
    min: int | None = option(
        Integer(low=0, high=100_000),
        "With fewer than this running, jobs wait instead of failing.",
        "6",
        default=None,
        default_text="`count`",
    )
    hosts: tuple[str, ...] = option(
        ListOf(Text("a host group", GROUP_NAME)),
        "Host groups they run on.",
        "compute",
        default=(),
        default_text="every group",
    )
    gpus: int = option(Integer(low=0, high=64), "GPUs of each task, set as CUDA_VISIBLE_DEVICES.", "1", default=0)
    memory: Bytes | None = option(
        Size(),
        "Memory limit of each task, and of each process of a job beside one.",
        "24GiB",
        default=None,
        default_text="none",
    )
    env: Mapping[str, str] = option(
        MapOf(Text(), "an environment variable", ENV_NAME),
        "Environment of these tasks, over the cluster's.",
        '{OMP_NUM_THREADS: "4"}',
        factory=dict,
    )
    spread: Literal["host", "rack", "pack"] = option(
        Choice(("host", "rack", "pack")),
        "Put tasks on different hosts, on different racks, or together.",
        "rack",
        default="host",
    )


@dataclass(frozen=True, slots=True)
class Ports:
    """Where tasks listen: `first` to `last`, both included, or any free port where they are None."""

    first: int | None = None
    last: int | None = None

    @property
    def is_auto(self) -> bool:
        return self.first is None


@dataclass(frozen=True, slots=True)
class Health:
    """How a silent or stuck task is noticed."""

    beat: Seconds = option(Duration(), "Time between heartbeats.", "500ms", default=0.5)
    suspect_phi: float = option(
        Number(above=0.0, high=100.0), "Suspicion (phi-accrual) at which a task is suspect.", "5", default=5.0
    )
    down_phi: float = option(Number(above=0.0, high=100.0), "Suspicion at which it is given up.", "11", default=11.0)
    pause: Seconds = option(Duration(positive=False), "Silence always forgiven.", "2s", default=1.75)
    down_after: Seconds = option(Duration(), "Hard limit of silence, whatever phi says.", "5s", default=5.0)
    lease: Seconds = option(Duration(), "A cut-off host stops its own tasks after this.", "15s", default=15.0)
    startup: Seconds = option(Duration(), "No progress is expected before this.", "5m", default=300.0)
    progress: Seconds = option(Duration(), "After that: no step in this time means hung.", "60s", default=60.0)
    idle: Seconds = option(
        Duration(),
        "A torch or JAX job that reports no progress starts again when none of its processes has used a processor or a "
        "GPU for so long.",
        "5m",
        default=600.0,
    )


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Rules by which a host that keeps failing is set aside."""

    failures: int = option(Integer(low=1, high=100_000), "Failures on a host within `within`.", "3", default=3)
    within: Seconds = option(Duration(), "The window of `failures`.", "10m", default=600.0)
    lasts: Seconds = option(Duration(), "First time set aside; doubles each time.", "1m", default=60.0, name="for")
    max: Seconds = option(Duration(), "Never longer than this.", "1h", default=3600.0)


@dataclass(frozen=True, slots=True)
class Every:
    """How often programs that do not say it themselves write a checkpoint: by time or by steps, not both."""

    seconds: float | None = option(Number(above=0.0), "Seconds between checkpoints.", "30", default=None)
    steps: int | None = option(Integer(low=1), "Steps between checkpoints.", "200", default=None)


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """Checkpoints from which jobs resume."""

    path: str | None = option(
        Text("a path"),
        "Folder for checkpoints, one below it for each job. All hosts must share it: `up` proves it, and fails where "
        "it is not so, and no job begins there. Without it checkpoints are copied between hosts.",
        "/mnt/ckpt/ranker",
        default=None,
        default_text="the job's own folder",
    )
    every: Every = option(
        Table(Every),
        "Bound on the work that is lost, unless the program says how often it saves.",
        "{seconds: 30}",
        factory=lambda: Every(seconds=30.0),
    )
    keep: int = option(
        Integer(low=1, high=100_000), "Newest checkpoints kept, unless the program says how many.", "3", default=3
    )
    copies: int = option(
        Integer(low=1, high=1000),
        "Hosts that have every checkpoint, at least; those of ps tasks and the chief always do. Without meaning where "
        "`path` names a folder that all hosts share.",
        "3",
        default=2,
    )


@dataclass(frozen=True, slots=True)
class Jobs:
    """What holds for jobs that do not say otherwise."""

    success: Literal["chief", "all"] | None = option(
        Choice(("chief", "all")),
        "Whose exit code 0 makes a job a success: the chief's, or that of every process.",
        "all",
        default=None,
        default_text="`chief` for dtf and tensorflow, `all` for other frameworks",
    )


@dataclass(frozen=True, slots=True)
class Security:
    """Who may talk to whom."""

    tls: Literal["auto", "none"] = option(
        Choice(("auto", "none")),
        "`auto` makes a certificate authority for the cluster at `up`; `none` is for localhost only.",
        "auto",
        default="auto",
    )
    lifetime: Seconds = option(
        Duration(), "Of certificates; they are renewed when a third of it is left.", "825d", default=825 * 86400.0
    )


def _local_group() -> dict[str, HostGroup]:
    return {DEFAULT_GROUP: HostGroup((HostName("localhost"),))}


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A whole spec file."""

    cluster: str = option(
        Text("1 to 40 lower-case letters, digits and inner hyphens", CLUSTER_NAME),
        "The cluster's name, used by `-c`.",
        "lab",
    )
    tasks: Mapping[str, TaskGroup] = option(
        MapOf(Table(TaskGroup, short="count"), "a job name", names=JOB_NAMES),
        "What runs: a number, or a block, for each of TensorFlow's job names.",
        "{ps: 1, worker: 2}",
    )
    version: int = option(
        Integer(low=FORMAT_VERSION, high=FORMAT_VERSION),
        "Version of this file's format.",
        "1",
        default=FORMAT_VERSION,
    )
    host_groups: Mapping[str, HostGroup] = option(
        HostBlock(Table(HostGroup, short="names")),
        "Where it runs: a host pattern, a list of them, or named groups.",
        "alice@node[1-4]",
        factory=_local_group,
        name="hosts",
        default_text="`localhost`, without SSH; what `provider` lends",
    )
    provider: Literal["ssh", "slurm", "ray"] = option(
        Choice(("ssh", *LENDERS)),
        "Who gives the hosts: `ssh`, those that `hosts` names, or nodes that Slurm (`slurm`) or Ray (`ray`) lends.",
        "slurm",
        default="ssh",
    )
    slurm: Slurm = option(
        Table(Slurm), "What is asked of Slurm, with `provider: slurm`.", "{nodes: 4, time: 8h}", factory=Slurm
    )
    ray: Ray = option(
        Table(Ray), "What is asked of a running Ray cluster, with `provider: ray`.", "{hosts: 4, cpus: 8}", factory=Ray
    )
    controller: ControllerPlace = option(
        Table(ControllerPlace, short="place"),
        "Where the controller runs: `local` or `host`, or a block that says which host.",
        "{place: host, host: node2}",
        factory=ControllerPlace,
    )
    ssh: Ssh = option(Table(Ssh), "How to log in to the hosts.", "{host_keys: pin}", factory=Ssh)
    home: str | None = option(
        Text("a folder on the hosts, as ~/NAME or /NAME, of letters, digits and . _ + @ -", HOST_FOLDER),
        "Where dtfctl keeps what is its own on the hosts: packages and the clusters' folders.",
        "/scratch/alice/dtfctl",
        default=None,
        default_text="`~/.dtfctl`",
    )
    sync: tuple[Sync, ...] = option(
        ListOf(Table(Sync)), "Files sent to the hosts.", '[{from: ., to: "~/vision"}]', default=()
    )
    setup: tuple[str, ...] = option(
        ListOf(Text("a shell command")),
        "Commands run once per host, again when they or the synced files change.",
        "[pip install -r requirements.txt]",
        default=(),
    )
    python: str | None = option(
        Text("a path"),
        "Python that runs the tasks and jobs.",
        "~/venv/bin/python",
        default=None,
        default_text="the one that runs dtfctl",
    )
    env: Mapping[str, str] = option(
        MapOf(Text(), "an environment variable", ENV_NAME),
        "Environment of tasks and jobs. `${NAME}` takes the value from your environment.",
        '{PYTHONUNBUFFERED: "1"}',
        factory=dict,
    )
    fast: bool = option(
        Flag(),
        "Whether hosts get numba and oneDNN, in the versions that are installed where `up` runs, once tasks run.",
        "false",
        default=True,
    )
    ports: Ports = option(
        PortRange(),
        "Where tasks listen.",
        "20000-20999",
        default=Ports(),
        default_text="`auto`, any free port",
    )
    restart: Restart = option(
        Table(Restart), "What happens when a task ends.", "{attempts: 5, within: 10m}", factory=Restart
    )
    health: Health = option(Table(Health), "How failures are noticed.", "{beat: 500ms}", factory=Health)
    quarantine: Quarantine = option(
        Table(Quarantine), "When a failing host is set aside.", "{failures: 3}", factory=Quarantine
    )
    checkpoints: Checkpoints = option(
        Table(Checkpoints), "Checkpoints.", "{every: {seconds: 30}, keep: 3}", factory=Checkpoints
    )
    jobs: Jobs = option(Table(Jobs), "What holds for jobs.", "{success: all}", factory=Jobs)
    security: Security = option(Table(Security), "Certificates.", "{tls: auto}", factory=Security)
    runtime: Runtime = option(Table(Runtime), "How tasks exchange tensors.", "{transport: tcp}", factory=Runtime)
    logs: Logs = option(Table(Logs), "Logs.", "{rotate: 64MiB, keep: 3}", factory=Logs)
    metrics: Metrics = option(Table(Metrics), "Metrics.", "{port: 9464}", factory=Metrics)
    dashboard: Dashboard = option(Table(Dashboard), "A page to look at.", "{port: 8899}", factory=Dashboard)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Every host, spares included, in the order of the file."""
        return tuple(
            Host(
                name=item.name,
                group=group_name,
                user=item.user or self.ssh.user,
                slots=group.slots,
                gpus=group.gpus,
                rack=None if group.rack is None else fill_rack(group.rack, item.brackets),
                spare=group.spare,
            )
            for group_name, group in self.host_groups.items()
            for item in group.names
        )

    @property
    def is_local(self) -> bool:
        """Whether every task runs on this machine, so that no other is asked."""
        return all(item.name in LOCAL_NAMES for group in self.host_groups.values() for item in group.names)

    @property
    def task_names(self) -> tuple[str, ...]:
        """Every task as `job/index`, in the order of the file."""
        return tuple(f"{job}/{i}" for job, group in self.tasks.items() for i in range(group.count))


def is_default_hosts(groups: Mapping[str, HostGroup]) -> bool:
    """Tell whether the file may have named none."""
    return groups == _local_group()


def lent_hosts(spec: ClusterSpec) -> dict[str, HostGroup]:
    """Name the hosts that are to be lent."""
    count = spec.ray.hosts if spec.provider == "ray" else spec.slurm.nodes or 1
    slots, least = (spec.ray.slots, spec.ray.min) if spec.provider == "ray" else (spec.slurm.slots, spec.slurm.min)
    names = tuple(HostName(f"{spec.provider}-{number}") for number in range(count))
    return {spec.provider: HostGroup(names, slots=slots, min=least)}


def fill_rack(template: str, brackets: tuple[str, ...]) -> str:
    """Replace `{n}` in `template` by the nth bracket's value (from 1); `load.py` has checked that n exists."""
    text = template
    for number, value in enumerate(brackets, start=1):
        text = text.replace(f"{{{number}}}", value)
    return text
