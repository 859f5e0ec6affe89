"""Three hosts, and what runs on them: the clusters that are compared.

Ours are brought up over SSH, as users do, one encrypted and one with `encrypt: none`; TensorFlow's servers are started
on the same hosts and talk plain gRPC. The client of each runs on the host of worker 0. The hosts are made on this
machine, each with a network of its own, or are those of a spec: such ones have this checkout at the same path with its
environment, and what peers need (TensorFlow, torch) where this machine has it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from benchmarks.limits import Limits
from benchmarks.processes import ROOT, Child, ChildError, Servers, Side, clean_environment
from tests.lab.netns import HOME, Lab, why_not
from tests.lab.wire import long_links

if TYPE_CHECKING:
    from dtfctl.launcher.spec.model import ClusterSpec

JOBS = {"ps": 1, "worker": 2}
TASKS = [f"{job}/{i}" for job, count in JOBS.items() for i in range(count)]
HOSTS = len(TASKS)
PORT = 23230
ENCRYPTED, PLAIN = "encrypted", "encrypt: none"
UP_S = 120.0
PASSED_ON = ("DTF_ADAPT_THREADS",)
"""What runs at real-time priority needs it: else tasks leave cores to others, which cannot have them."""


@dataclass(frozen=True)
class Shape:
    """What a link is made to be.

    Attributes:
        bits_s, delay_s: each way.
    """

    bits_s: float
    delay_s: float

    def __str__(self) -> str:
        return f"{self.bits_s / 1e6:,.0f} Mbit/s, {self.delay_s * 1e3:.0f} ms"


class Hosts(Protocol):
    """Three hosts: of the ps and of two workers, in this order.

    Attributes:
        addresses: where they reach each other.
        interface: the device that has these addresses; empty where that is not known.
    """

    interface: str

    @property
    def addresses(self) -> list[str]: ...

    def command(self, index: int, *command: str) -> list[str]:
        """Make the command that runs a command on a host, in this checkout."""

    def spec(self, name: str, encrypt: str) -> ClusterSpec:
        """Describe a cluster of one task a host."""

    def shaped(self, shape: Shape, stack: ExitStack) -> None:
        """Have all links be like that until the stack ends.

        Raises:
            ChildError: these cannot be.
        """


class LabHosts:
    """Hosts of a lab on this machine."""

    interface = "eth0"

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    @property
    def addresses(self) -> list[str]:
        return [host.address for host in self._lab.hosts]

    def command(self, index: int, *command: str) -> list[str]:
        return inside(self._lab, self._lab.names[index], *command)

    def spec(self, name: str, encrypt: str) -> ClusterSpec:
        from dtfctl.launcher.spec.exchange import Runtime
        from dtfctl.launcher.spec.model import ClusterSpec, HostGroup, HostName, Ssh, TaskGroup

        return ClusterSpec(
            name,
            {job: TaskGroup(count) for job, count in JOBS.items()},
            host_groups={"all": HostGroup(tuple(HostName(address) for address in self.addresses))},
            ssh=Ssh(user="root", key=str(self._lab.key), known_hosts=str(self._lab.known_hosts), timeout=20.0),
            runtime=Runtime(encrypt="none" if encrypt == "none" else "auto"),
            python=sys.executable,
            env=_passed_on(),
        )

    def shaped(self, shape: Shape, stack: ExitStack) -> None:
        stack.enter_context(long_links(self._lab, shape.bits_s, shape.delay_s))


class SpecHosts:
    """The first three hosts of a spec.

    Raises:
        ChildError: it has fewer.
    """

    interface = ""

    def __init__(self, file: Path) -> None:
        from dtfctl.launcher.operator.ssh_command import ssh_command
        from dtfctl.launcher.paths import home
        from dtfctl.launcher.spec import load_spec
        from dtfctl.launcher.spec.model import HostName

        self._spec = load_spec(file, os.environ, for_up=True)
        hosts = [host for host in self._spec.hosts if not host.is_local][:HOSTS]
        if len(hosts) < HOSTS:
            raise ChildError(f"{file} names {len(hosts)} hosts beside this machine, and {HOSTS} are needed")
        self._names = tuple(HostName(host.name, host.user) for host in hosts)
        self._ssh = [ssh_command(host, self._spec.ssh, home() / "known_hosts") for host in hosts]
        self.addresses = [self._address(i) for i in range(len(hosts))]

    def _address(self, index: int) -> str:
        """Ask a host for the address at which SSH has reached it."""
        command = [*self._ssh[index], "--", "echo $SSH_CONNECTION"]
        said = subprocess.run(command, capture_output=True, text=True, timeout=UP_S)
        if said.returncode or len(said.stdout.split()) != 4:
            raise ChildError(f"{shlex.join(command)}: {said.stderr or said.stdout}")
        return said.stdout.split()[2]

    def command(self, index: int, *command: str) -> list[str]:
        kept = ("PYTHONPATH", "PYTHONUNBUFFERED", "TF_CPP_MIN_LOG_LEVEL", "CUDA_VISIBLE_DEVICES")
        environment = [f"{name}={value}" for name, value in clean_environment().items() if name in kept]
        there = f"cd {shlex.quote(str(ROOT))} && exec {shlex.join(['env', *environment, *command])}"
        return [*self._ssh[index], "--", there]

    def spec(self, name: str, encrypt: str) -> ClusterSpec:
        from dtfctl.launcher.spec.model import HostGroup, TaskGroup

        return replace(
            self._spec,
            cluster=name,
            tasks={job: TaskGroup(count) for job, count in JOBS.items()},
            host_groups={"all": HostGroup(self._names)},
            runtime=replace(self._spec.runtime, encrypt="none" if encrypt == "none" else "auto"),
            env={**self._spec.env, **_passed_on()},
        )

    def shaped(self, shape: Shape, stack: ExitStack) -> None:
        raise ChildError("only the links of hosts that are made here can be shaped")


class HostServers(Servers):
    """Tasks on hosts.

    Args:
        tasks: those that this started.
    """

    def __init__(self, tasks: dict[str, Child], targets: dict[str, str]) -> None:
        self.tasks = tasks
        self.targets = targets


class HostSide(Side):
    """A side whose tasks are on hosts, one a task, and whose driver is on that of worker 0.

    Args:
        serve: starts its tasks.
    """

    def __init__(self, name: str, runtime: str, python: str, hosts: Hosts, serve: Callable[[], HostServers]) -> None:
        super().__init__(name, runtime, python)
        self.hosts = hosts
        self._serve = serve
        self._tasks: HostServers | None = None

    def _make_driver(self) -> Child:
        return self.on_worker(0, self.python, "-m", "benchmarks.driver", self.runtime, what=f"{self.name} driver")

    def on_worker(self, index: int, *command: str, what: str) -> Child:
        """Start a command on the host of a worker."""
        return Child(self.hosts.command(1 + index, *command), what)

    def servers(self, jobs: Mapping[str, int]) -> Servers:
        if any(count > JOBS.get(job, 0) for job, count in jobs.items()):
            raise ChildError(f"the hosts have {JOBS}, not {dict(jobs)}")
        if self._tasks is None:
            self._tasks = self._serve()
        return self._tasks

    def stop(self) -> None:
        super().stop()
        if self._tasks is not None:
            self._tasks.stop()
            self._tasks = None


def _passed_on() -> dict[str, str]:
    """Settings that tasks take from who measures; SSH passes no environment on."""
    return {name: value for name, value in os.environ.items() if name in PASSED_ON}


def inside(lab: Lab, host: str, *command: str) -> list[str]:
    """The command that runs a command on a host."""
    init = lab.init(host)
    if init is None:
        raise ChildError(f"{host} does not run")
    place = ["nsenter", "-t", str(init), "-n", "-p", "-u", "-i", "-m", f"--wd={ROOT}", "--"]
    return [*place, "env", f"HOME={HOME}", *command]


@contextmanager
def three_hosts(
    tensorflow: Side | str, say: Callable[[str], None], file: Path | None = None
) -> Iterator[tuple[Hosts, list[Side], Side | str]]:
    """The hosts; our sides; and TensorFlow's, or why there is none.

    Args:
        tensorflow: its interpreter's side on this machine.
        file: a spec that names hosts; without it they are made here.

    Raises:
        ChildError: there can be no such hosts here, or they do not come up.
    """
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="dtf-bench-home-") as home, ExitStack() as stack:
        stack.callback(_restore, before)
        if file is None:
            os.environ["DTFCTL_HOME"] = home
            say("three hosts begin")
            hosts: Hosts = _made_here(stack)
        else:
            hosts = SpecHosts(file)
            say(f"three hosts of {file}: {', '.join(hosts.addresses)}")
        ours: list[Side] = []
        for kind, encrypt in ((ENCRYPTED, "auto"), (PLAIN, "none")):
            say(f"dtfctl up over SSH: {kind}")
            targets = bring_up(hosts, encrypt, stack)
            ours.append(_ours(hosts, kind, targets))
        peer: Side | str = tensorflow
        if isinstance(tensorflow, Side):
            python = tensorflow.python
            peer = HostSide("TensorFlow", "tensorflow", python, hosts, lambda: _tensorflow(hosts, python))
        for side in (*ours, *([peer] if isinstance(peer, Side) else [])):
            stack.callback(side.stop)
        yield hosts, ours, peer


def _made_here(stack: ExitStack) -> LabHosts:
    problem = why_not()
    if problem:
        raise ChildError(f"three hosts on this machine: {problem}")
    lab = Lab.of_environment()
    lab.up(HOSTS)
    stack.callback(lab.down)
    lab.lend_packages()
    return LabHosts(lab)


def _restore(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _ours(hosts: Hosts, kind: str, targets: dict[str, str]) -> HostSide:
    return HostSide(f"ours ({kind})", "ours", sys.executable, hosts, lambda: HostServers({}, targets))


def bring_up(hosts: Hosts, encrypt: str, stack: ExitStack) -> dict[str, str]:
    """Bring a cluster up; where a client on each worker's host finds its task."""
    from dtfctl.launcher.api import Cluster

    spec = hosts.spec(f"bench-{encrypt}", encrypt)
    stack.callback(Cluster.down_by_name, spec.cluster)
    home = spec.home or "~/.dtfctl"
    others = {(i, place) for i in range(1, HOSTS) for place in _sockets(hosts, i, home)}
    result = Cluster.up(spec)
    if result.cluster is None or result.exit_code or result.running != HOSTS:
        raise ChildError(f"dtfctl up over SSH: {result}")
    names = [host.name for host in spec.hosts]
    tasks = {task.name: names.index(task.host) for task in result.cluster.status().tasks}
    if tasks != {name: i for i, name in enumerate(TASKS)}:
        raise ChildError(f"the tasks are not on the hosts they should be on, but on {tasks} of {names}")
    targets = {}
    for i, task in enumerate(TASKS[1:], 1):
        file = f"{task.replace('/', '-')}.sock"
        found = [p for p in _sockets(hosts, i, home) if p.endswith(f"/{file}") and (i, p) not in others]
        if len(found) != 1:
            raise ChildError(f"{task} on {names[i]}: no socket of its own is there, but {found}")
        targets[task] = f"unix:{found[0]}"
    return targets


def _sockets(hosts: Hosts, index: int, home: str) -> list[str]:
    """Where clients on a host reach tasks, of all clusters."""
    command = f"find {home} /tmp /run -xdev -type s -name '*.sock' 2>/dev/null"
    done = subprocess.run(hosts.command(index, "sh", "-c", command), capture_output=True, text=True, timeout=UP_S)
    return done.stdout.split()


def _tensorflow(hosts: Hosts, python: str) -> HostServers:
    """Its servers, in the same places as ours."""
    places = dict(zip(TASKS, hosts.addresses, strict=True))
    cluster = json.dumps({j: [f"{places[f'{j}/{i}']}:{PORT}" for i in range(n)] for j, n in JOBS.items()})
    tasks: dict[str, Child] = {}
    try:
        for index, name in enumerate(TASKS):
            command = [python, "-m", "benchmarks.server", "tensorflow", cluster, *name.split("/")]
            tasks[name] = Child(hosts.command(index, *command), f"TensorFlow server {name}")
        targets = {name: task.read(UP_S)["target"] for name, task in tasks.items()}
    except BaseException:
        for task in tasks.values():
            task.stop()
        raise
    return HostServers(tasks, targets)


@contextmanager
def gloo(side: HostSide, python: str) -> Iterator[Child]:
    """Two ranks of torch's gloo, one on the host of each worker; the first, which answers.

    Raises:
        ChildError: they do not find each other.
    """
    command = (python, "-m", "benchmarks.peer_programs.exchange", "gloo", side.hosts.addresses[1], str(PORT + 1))
    place = ("env", f"GLOO_SOCKET_IFNAME={side.hosts.interface}") if side.hosts.interface else ()
    with ExitStack() as stack:
        first, second = (side.on_worker(n, *place, *command, str(n), what=f"gloo's rank {n}") for n in (0, 1))
        # The second ends with the first; over SSH a moment later.
        stack.callback(second.stop, 5.0)
        stack.callback(first.stop)
        first.read()
        yield first


def link_limits(hosts: Hosts, base: Limits) -> Limits:
    """What a raw socket does between two of the hosts, and for the rest what the machine does."""
    script = str(Path("benchmarks") / "raw_link.py")
    address = hosts.addresses[0]
    server = Child(hosts.command(0, sys.executable, script, "serve", address), "the raw socket's server")
    try:
        port = server.read()["port"]
        client = Child(hosts.command(1, sys.executable, script, address, str(port)), "the raw socket")
        try:
            found = client.read(UP_S)
        finally:
            client.stop()
    finally:
        server.stop()
    trip, rate = float(found["round_trip_s"]), float(found["bytes_s"])
    return Limits(trip, trip, rate, base.memcpy_bytes_s, base.gemm_flops, base.disk_bytes_s, base.fork_s)
