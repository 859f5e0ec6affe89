"""Three hosts on this machine, each with a network of its own, and what runs on them: the clusters that are compared.

Ours are brought up over SSH, as users do, one encrypted and one with `encrypt: none`; TensorFlow's servers are started
in the same networks and talk plain gRPC. The client of each runs on the host of worker 0.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.limits import Limits
from benchmarks.processes import ROOT, Child, ChildError, Servers, Side
from tests.lab.netns import HOME, Lab, why_not

JOBS = {"ps": 1, "worker": 2}
PORT = 23230
ENCRYPTED, PLAIN = "encrypted", "encrypt: none"
UP_S = 120.0


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

    def __init__(self, name: str, runtime: str, python: str, lab: Lab, serve: Callable[[], HostServers]) -> None:
        super().__init__(name, runtime, python)
        self._lab = lab
        self._serve = serve
        self._tasks: HostServers | None = None

    def _make_driver(self) -> Child:
        command = [self.python, "-m", "benchmarks.driver", self.runtime]
        return Child(inside(self._lab, self._lab.names[1], *command), f"{self.name} driver")

    def on_worker(self, index: int, *command: str, what: str) -> Child:
        """Start a command on the host of a worker."""
        return Child(inside(self._lab, self._lab.names[1 + index], *command), what)

    def address_of_worker(self, index: int) -> str:
        return self._lab.hosts[1 + index].address

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


def inside(lab: Lab, host: str, *command: str) -> list[str]:
    """The command that runs a command on a host."""
    init = lab.init(host)
    if init is None:
        raise ChildError(f"{host} does not run")
    place = ["nsenter", "-t", str(init), "-n", "-p", "-u", "-i", "-m", f"--wd={ROOT}", "--"]
    return [*place, "env", f"HOME={HOME}", *command]


@contextmanager
def three_hosts(tensorflow: Side | str, say: Callable[[str], None]) -> Iterator[tuple[Lab, list[Side], Side | str]]:
    """The hosts; our sides; and TensorFlow's, or why there is none.

    Args:
        tensorflow: its interpreter's side on this machine.

    Raises:
        ChildError: there can be no such hosts here, or they do not come up.
    """
    problem = why_not()
    if problem:
        raise ChildError(f"three hosts on this machine: {problem}")
    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="dtf-bench-home-") as home, ExitStack() as stack:
        stack.callback(_restore, before)
        os.environ["DTFCTL_HOME"] = home
        lab = Lab.of_environment()
        say("three hosts begin")
        lab.up(3)
        stack.callback(lab.down)
        lab.lend_packages()
        ours: list[Side] = []
        for kind, encrypt in ((ENCRYPTED, "auto"), (PLAIN, "none")):
            say(f"dtfctl up over SSH: {kind}")
            targets = bring_up(lab, encrypt, stack)
            ours.append(_ours(lab, kind, targets))
        peer: Side | str = tensorflow
        if isinstance(tensorflow, Side):
            python = tensorflow.python
            peer = HostSide("TensorFlow", "tensorflow", python, lab, lambda: _tensorflow(lab, python))
        for side in (*ours, *([peer] if isinstance(peer, Side) else [])):
            stack.callback(side.stop)
        yield lab, ours, peer


def _restore(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _ours(lab: Lab, kind: str, targets: dict[str, str]) -> HostSide:
    return HostSide(f"ours ({kind})", "ours", sys.executable, lab, lambda: HostServers({}, targets))


def bring_up(lab: Lab, encrypt: str, stack: ExitStack) -> dict[str, str]:
    """Bring a cluster up; where a client on each worker's host finds its task."""
    from dtfctl.launcher.api import Cluster
    from dtfctl.launcher.spec.exchange import Runtime
    from dtfctl.launcher.spec.model import (
        ClusterSpec,
        HostGroup,
        HostName,
        Ssh,
        TaskGroup,
    )

    name = f"bench-{encrypt}"
    spec = ClusterSpec(
        name,
        {job: TaskGroup(count) for job, count in JOBS.items()},
        host_groups={"all": HostGroup(tuple(HostName(host.address) for host in lab.hosts))},
        ssh=Ssh(user="root", key=str(lab.key), known_hosts=str(lab.known_hosts), timeout=20.0),
        runtime=Runtime(encrypt="none" if encrypt == "none" else "auto"),
        python=sys.executable,
    )
    stack.callback(Cluster.down_by_name, name)
    others = {place for i, host in enumerate(lab.names[1:]) for place in _sockets(lab, host, f"worker/{i}")}
    result = Cluster.up(spec)
    if result.cluster is None or result.exit_code or result.running != len(lab.names):
        raise ChildError(f"dtfctl up over SSH: {result}")
    host_of = {task.name: task.host for task in result.cluster.status().tasks}
    targets = {}
    for task, address in host_of.items():
        if task.startswith("worker"):
            (host,) = (h.name for h in lab.hosts if h.address == address)
            found = [place for place in _sockets(lab, host, task) if place not in others]
            if len(found) != 1:
                raise ChildError(f"{task} on {host}: no socket of its own is there, but {found}")
            targets[task] = f"unix:{found[0]}"
    if host_of["worker/0"] != lab.hosts[1].address:
        raise ChildError(f"worker/0 is on {host_of['worker/0']}, not on {lab.hosts[1].address}")
    return targets


def _sockets(lab: Lab, host: str, task: str) -> list[str]:
    """Where clients on a host reach tasks of that name, of all clusters."""
    name = f"{task.replace('/', '-')}.sock"
    return lab.sh(host, "find", str(HOME), "/tmp", "/run", "-xdev", "-type", "s", "-name", name, check=False).split()


def _tensorflow(lab: Lab, python: str) -> HostServers:
    """Its servers, in the same places as ours."""
    names = [(job, i) for job, count in JOBS.items() for i in range(count)]
    places = dict(zip(names, lab.hosts, strict=True))
    cluster = json.dumps({j: [f"{places[j, i].address}:{PORT}" for i in range(n)] for j, n in JOBS.items()})
    tasks: dict[str, Child] = {}
    try:
        for (job, i), host in places.items():
            command = [python, "-m", "benchmarks.server", "tensorflow", cluster, job, str(i)]
            tasks[f"{job}/{i}"] = Child(inside(lab, host.name, *command), f"TensorFlow server {job}/{i}")
        targets = {name: task.read(UP_S)["target"] for name, task in tasks.items()}
    except BaseException:
        for task in tasks.values():
            task.stop()
        raise
    return HostServers(tasks, targets)


def gloo(side: HostSide, python: str) -> Child:
    """Two ranks of torch's gloo, one on the host of each worker; the first, which answers.

    Raises:
        ChildError: they do not find each other.
    """
    command = (python, "-m", "benchmarks.peer_programs.exchange", "gloo", side.address_of_worker(0), str(PORT + 1))
    place = ("env", "GLOO_SOCKET_IFNAME=eth0")
    first = side.on_worker(0, *place, *command, "0", what="gloo's first rank")
    try:
        # It ends with the first one.
        side.on_worker(1, *place, *command, "1", what="gloo's second rank")
        first.read()
    except BaseException:
        first.stop()
        raise
    return first


def link_limits(lab: Lab, base: Limits) -> Limits:
    """What a raw socket does between two of the hosts, and for the rest what the machine does."""
    ps, worker = lab.hosts[0], lab.hosts[1]
    script = str(Path("benchmarks") / "raw_link.py")
    server = Child(inside(lab, ps.name, sys.executable, script, "serve", ps.address), "the raw socket's server")
    try:
        port = server.read()["port"]
        client = Child(inside(lab, worker.name, sys.executable, script, ps.address, str(port)), "the raw socket")
        try:
            found = client.read(UP_S)
        finally:
            client.stop()
    finally:
        server.stop()
    trip, rate = float(found["round_trip_s"]), float(found["bytes_s"])
    return Limits(trip, trip, rate, base.memcpy_bytes_s, base.gemm_flops, base.disk_bytes_s, base.fork_s)
